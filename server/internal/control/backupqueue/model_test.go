package backupqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/namespaceoverlap"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// model is one random sequence of steps ("life") of a queue: actions of users and of the controller of backups, and
// failures of the server. The rules are checked after each step.
//
// A life takes place on a real API server or on one in memory. The latter explores many more interleavings in the same
// time, and the same seed gives the same life; likeness_test.go shows that both give the same replies.
type model struct {
	t        *testing.T
	plane    plane
	random   *rand.Rand
	observer *observer
	flaw     flaw

	admission decider
	line      *faultyClient // of the running queue
	end       func()        // stops the server and the observer
	steps     []string      // taken so far
	count     int
	spaces    map[string]bool // namespaces of this life; the value reports whether they are terminating
	clock     atomic.Int64    // the offset of the server's clock
	pace      Pace            // of the queue, from the next start
	later     []func()        // steps of users that remain to be taken, at any time
}

// plane is the environment of a life: an API server with a namespace of Backups, and at most one server with a queue.
type plane interface {
	// name returns the name of the namespace.
	name() string
	// create creates a Backup and sets its server-side fields.
	create(b *velerov1.Backup)
	// write writes the difference between b and changed, and sets changed to the result.
	write(b, changed *velerov1.Backup)
	remove(b *velerov1.Backup)
	makeNamespace(name string)
	endNamespace(name string)                      // makes it terminating
	removeNamespace(name string, terminating bool) // immediately
	// start starts the queue of a server, which newQueue makes.
	start(newQueue func(writes client.Client, live client.Reader) *watchedQueue, f flaw)
	stop()
	// hold delays the events of Backups until release.
	hold()
	release()
}

// flaw is a weakness of the queue, for a test. The zero value is none.
type flaw struct {
	// watch wraps the event handler of the queue; nil changes nothing.
	watch func(*Controller, handler.EventHandler) handler.EventHandler
	// admission wraps the policy.
	admission func(decider) decider
	// client wraps the client of the queue.
	client func(*Controller, client.Client) client.Client
}

// start starts the queue of a server.
func (m *model) start() {
	m.t.Helper()
	now := func() time.Time { return time.Now().Add(time.Duration(m.clock.Load())) }
	m.plane.start(func(writes client.Client, live client.Reader) *watchedQueue {
		q := &Controller{
			Limit: m.observer.rules.limit, Events: silent{}, Log: hclog.NewNullLogger(), Now: now, Admission: alone{m.admission},
			Exact: m.observer.rules.exact, Pace: m.pace,
		}
		if m.flaw.client != nil {
			writes = m.flaw.client(q, writes)
		}
		m.line = &faultyClient{Client: writes, observer: m.observer, conflicts: m.random.IntN(6) == 0}
		m.line.losses = m.inMemory() && m.random.IntN(4) == 0 // the real controller pauses after an error
		m.line.left.Store(-1 << 50)
		q.Cluster = &run.Cluster{Client: m.line, Live: live, Namespace: m.plane.name()}
		if m.flaw.admission != nil {
			q.Admission = alone{m.flaw.admission(m.admission)}
		}
		return newWatchedQueue(q, m.observer)
	}, m.flaw)
}

// silent records no events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// newModel prepares a life on the real API server. The same seed gives the same steps, apart from timing.
func newModel(t *testing.T, seed uint64, admission decider, f flaw) *model {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, seed))
	return newModelOf(t, randomRules(random), random, admission, f)
}

// randomRules returns a random limit of running backups, and exact positions of all backups or of a few.
func randomRules(random *rand.Rand) queueRules {
	rules := queueRules{limit: 1 + random.IntN(4), exact: queue.DefaultExact()}
	if random.IntN(2) == 0 {
		rules.exact = queue.Exact{Front: 1 + random.IntN(3)}
	}
	return rules
}

// newModelOf prepares a life with rules.
func newModelOf(t *testing.T, rules queueRules, random *rand.Rand, admission decider, f flaw) *model {
	t.Helper()
	m := &model{t: t, random: random, admission: admission, flaw: f, spaces: map[string]bool{},
		observer: newObserver(rules)}
	ctx, end := context.WithCancel(t.Context())
	m.plane = newRealPlane(ctx, t, m.observer)
	m.end = func() { m.plane.stop(); end() }
	m.start()
	return m
}

// live takes random steps and then brings every backup to its end. It returns the first broken rule with all steps.
func (m *model) live(steps int) error {
	defer m.end()
	for range steps {
		if err := m.step(); err != nil {
			return m.report(err)
		}
	}
	for range 4 * (m.count + 1) {
		if len(m.observer.backups()) == 0 {
			return nil
		}
		m.note("drain")
		for _, b := range m.observer.backups() {
			m.drain(b)
		}
		if err := m.rest(); err != nil {
			return m.report(err)
		}
	}
	return m.report(errors.New("not every backup ends"))
}

func (m *model) report(err error) error {
	return fmt.Errorf("%w, after:\n%s\nwith limit %d, and at the end:\n%s", err, strings.Join(m.steps, "\n"),
		m.observer.rules.limit, m.picture())
}

// picture describes every backup in one line.
func (m *model) picture() string {
	var lines []string
	for _, b := range m.observer.backups() {
		lines = append(lines, fmt.Sprintf("%s %s %d %v -%v deleted=%v %s", b.Name, run.BackupPhase(b), b.Status.QueuePosition,
			b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces, b.DeletionTimestamp != nil,
			b.Annotations[velerov1.QueueWaitAnnotation]))
	}
	return strings.Join(lines, "\n")
}

func (m *model) note(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

// rest waits until the queue has handled all steps and checks the rules.
func (m *model) rest() error {
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	return m.observer.rest(ctx)
}

// patience is the longest time for which a test waits. Only a test that would never end reaches it.
const patience = 10 * time.Minute

// step takes one random step and waits until the queue has handled it.
func (m *model) step() error {
	switch dice := m.random.IntN(100); {
	case dice < 30:
		m.create()
	case dice < 52:
		m.moveOne(velerov1.BackupPhaseReadyToStart, velerov1.BackupPhaseInProgress)
	case dice < 72:
		m.finish()
	case dice < 76:
		m.moveOne(velerov1.BackupPhaseReadyToStart, velerov1.BackupPhaseFailedValidation)
	case dice < 78:
		m.giveBack()
	case dice < 81:
		m.delete()
	case dice < 84:
		m.editPosition()
	case dice < 86:
		m.editSpec()
	case dice < 88:
		m.moveOne([]velerov1.BackupPhase{"Queued", "ReadyToStart", "Completed", "FailedValidation"}[m.random.IntN(4)],
			velerov1.BackupPhaseNew)
	case dice < 89:
		m.moveOne(velerov1.BackupPhaseQueued, velerov1.BackupPhaseDeleting)
	case dice < 92:
		m.changeNamespaces()
	case dice < 93:
		m.jump()
	case dice < 95:
		m.burst()
	case dice < 96:
		m.decideOnStaleCache()
	case dice < 97:
		m.note("restart")
		m.plane.stop()
		m.start()
	default:
		m.kill()
	}
	return m.rest()
}

// pick returns a random backup in one of the phases, or nil.
func (m *model) pick(phases ...velerov1.BackupPhase) *velerov1.Backup {
	var some []*velerov1.Backup
	for _, b := range m.observer.backups() {
		if len(phases) == 0 || slices.Contains(phases, run.BackupPhase(b)) && b.DeletionTimestamp == nil {
			some = append(some, b)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[m.random.IntN(len(some))]
}

// prefix returns the prefix of the namespaces of this life.
func (m *model) prefix() string { return m.plane.name() + "-" }

// some returns names of namespaces, which need not exist, and patterns.
func (m *model) some(most int) []string {
	var names []string
	for range 1 + m.random.IntN(most) {
		name := string(rune('a' + m.random.IntN(7)))
		switch m.random.IntN(12) {
		case 0:
			name = "[ab]*"
		case 1:
			name = "*" + name
		}
		names = append(names, m.prefix()+name)
	}
	return names
}

func (m *model) spec() velerov1.BackupSpec {
	spec := velerov1.BackupSpec{}
	if m.random.IntN(14) == 0 {
		if m.random.IntN(2) == 0 {
			spec.ExcludedNamespaces = m.some(3)
		}
		return spec
	}
	spec.IncludedNamespaces = m.some(3)
	if m.random.IntN(6) == 0 {
		spec.ExcludedNamespaces = m.some(1)
	}
	return spec
}

const testFinalizer = "example.io/hold"

// create creates a random backup and returns its name. The order of the names is that of the creation.
func (m *model) create() string {
	m.count++
	b := controllertest.NewBackup(fmt.Sprintf("b%03d", m.count), func(b *velerov1.Backup) { b.Spec = m.spec() })
	if m.random.IntN(10) == 0 {
		b.Finalizers = []string{testFinalizer}
	}
	m.add(b)
	return b.Name
}

func (m *model) add(b *velerov1.Backup) {
	m.note("create %s %v -%v", b.Name, b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces)
	if _, real := m.plane.(*realPlane); real && !b.Status.Phase.IsNew() && !b.Status.Phase.Terminal() {
		m.observer.expects(b.Name, b.Status.Phase) // after its creation
	}
	m.plane.create(b)
	m.observer.await(b)
}

// patch changes a backup as a client other than the queue.
func (m *model) patch(b *velerov1.Backup, change func(*velerov1.Backup)) {
	changed := b.DeepCopy()
	change(changed)
	if from, to := run.BackupPhase(b), run.BackupPhase(changed); from != to {
		m.observer.expects(b.Name, to)
	}
	m.plane.write(b, changed)
	m.observer.await(changed)
}

func (m *model) move(b *velerov1.Backup, to velerov1.BackupPhase) {
	m.note("%s from %s to %s", b.Name, run.BackupPhase(b), to)
	m.patch(b, func(b *velerov1.Backup) { b.Status.Phase = to })
}

func (m *model) moveOne(from, to velerov1.BackupPhase) {
	if b := m.pick(from); b != nil {
		m.move(b, to)
	}
}

// giveBack returns a backup that cannot start yet to the queue.
func (m *model) giveBack() {
	if b := m.pick(velerov1.BackupPhaseReadyToStart); b != nil {
		m.note("%s from ReadyToStart back to the queue", b.Name)
		m.patch(b, queue.Return)
	}
}

func (m *model) finish() {
	phases := []velerov1.BackupPhase{"Completed", "Failed", "WaitingForPluginOperations", "Finalizing"}
	if b := m.pick(velerov1.BackupPhaseInProgress); b != nil {
		m.move(b, phases[m.random.IntN(len(phases))])
	}
}

// delete deletes a backup in a random phase among the present ones.
func (m *model) delete() {
	var phases []velerov1.BackupPhase
	for _, b := range m.observer.backups() {
		if phase := run.BackupPhase(b); b.DeletionTimestamp == nil && !slices.Contains(phases, phase) {
			phases = append(phases, phase)
		}
	}
	if len(phases) > 0 {
		m.remove(m.pick(phases[m.random.IntN(len(phases))]))
	}
}

func (m *model) remove(b *velerov1.Backup) {
	m.note("delete %s, which is %s", b.Name, run.BackupPhase(b))
	m.plane.remove(b)
	m.observer.awaitDeletion(b.Name, false)
}

func (m *model) editPosition() {
	if b := m.pick(velerov1.BackupPhaseQueued); b != nil {
		position := []int{0, -1, 1, 2, 1_000_000_000}[m.random.IntN(5)]
		m.note("%s to position %d by hand", b.Name, position)
		m.patch(b, func(b *velerov1.Backup) { b.Status.QueuePosition = position })
	}
}

func (m *model) editSpec() {
	if b := m.pick(velerov1.BackupPhaseQueued); b != nil {
		spec := m.spec()
		m.note("%s includes %v -%v from now on", b.Name, spec.IncludedNamespaces, spec.ExcludedNamespaces)
		m.patch(b, func(b *velerov1.Backup) { b.Spec = spec })
	}
}

// changeNamespaces creates a random namespace, deletes it, or makes it terminating.
func (m *model) changeNamespaces() {
	name := m.prefix() + string(rune('a'+m.random.IntN(7)))
	switch going, exists := m.spaces[name]; {
	case !exists:
		m.makeNamespace(name)
	case going || m.random.IntN(2) == 0:
		m.removeNamespace(name)
	default:
		m.endNamespace(name)
	}
}

func (m *model) makeNamespace(name string) {
	m.note("namespace %s", name)
	m.spaces[name] = false
	m.observer.setNamespaces(m.spaces)
	m.plane.makeNamespace(name)
}

// endNamespace makes a namespace terminating.
func (m *model) endNamespace(name string) {
	m.note("namespace %s is terminating", name)
	m.spaces[name] = true
	m.plane.endNamespace(name)
}

// removeNamespace deletes a namespace immediately.
func (m *model) removeNamespace(name string) {
	m.note("namespace %s is deleted", name)
	terminating := m.spaces[name]
	delete(m.spaces, name)
	m.observer.setNamespaces(m.spaces)
	m.plane.removeNamespace(name, terminating)
}

// jump sets the clock of the server. No decision may depend on it.
func (m *model) jump() {
	m.clock.Store(int64([]time.Duration{-10_000, -1, 0, 1, 10_000}[m.random.IntN(5)] * time.Hour))
	m.note("the clock jumps by %v", time.Duration(m.clock.Load()))
}

// decideOnStaleCache makes the queue decide while it receives no events of Backups.
func (m *model) decideOnStaleCache() {
	m.create()
	if m.rest() != nil { // the step detects it, too
		return
	}
	m.note("the watch of backups is held up")
	m.plane.hold()
	m.burst()
	m.delete()
	m.changeNamespaces() // the watch of namespaces still works
	m.observer.until(m.t.Context(), func() bool {
		return m.observer.broken != nil || m.observer.queue.knows(m.observer.rules.namespaces) && m.observer.queue.quiet()
	})
	m.plane.release()
}

// burst takes several steps without waiting. In memory, some steps are taken later, while the queue decides or writes.
func (m *model) burst() {
	m.note("burst:")
	steps := []func(){
		func() { m.create() }, func() { m.create() }, m.finish, m.finish,
		func() { m.moveOne(velerov1.BackupPhaseReadyToStart, velerov1.BackupPhaseInProgress) },
		func() { m.moveOne(velerov1.BackupPhaseReadyToStart, velerov1.BackupPhaseFailedValidation) },
		m.giveBack, m.delete,
	}
	for range 2 + m.random.IntN(4) {
		step := steps[m.random.IntN(len(steps))]
		if m.inMemory() && m.random.IntN(2) == 0 {
			m.later = append(m.later, step)
		} else {
			step()
		}
	}
}

func (m *model) inMemory() bool {
	_, is := m.plane.(*memory)
	return is
}

// takeLater takes the next delayed step. It reports whether there was one.
func (m *model) takeLater() bool {
	if len(m.later) == 0 {
		return false
	}
	step := m.later[0]
	m.later = m.later[1:]
	step()
	return true
}

// kill ends the server between two writes, or during one that is carried out.
func (m *model) kill() {
	m.line.last = m.random.IntN(2) == 0
	left := m.random.Int64N(4)
	m.note("kill after %d writes, the next one is carried out: %v", left, m.line.last)
	m.line.left.Store(left)
	m.burst()
	m.observer.until(m.t.Context(), func() bool { return m.line.left.Load() < 0 || m.observer.idle() })
	m.plane.stop()
	m.start()
}

// drain moves a backup one step towards its end.
func (m *model) drain(b *velerov1.Backup) {
	switch phase := run.BackupPhase(b); {
	case b.DeletionTimestamp != nil:
		m.note("release %s", b.Name)
		m.patch(b, func(b *velerov1.Backup) { b.Finalizers = nil })
		m.observer.awaitDeletion(b.Name, true)
	case phase == velerov1.BackupPhaseReadyToStart:
		m.move(b, velerov1.BackupPhaseInProgress)
	case phase == velerov1.BackupPhaseNew, phase == velerov1.BackupPhaseQueued:
	default:
		m.remove(b)
	}
}

// TestAcceptQueue_Model runs random lives on a real API server. There is no sweep, so each decision needs an event.
func TestAcceptQueue_Model(t *testing.T) {
	t.Parallel()
	const lives, steps, workers = 24, 50, 4
	for worker := range uint64(workers) {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			admission := newAdmission(t, namespaceoverlap.Name, namespaceoverlap.Register())
			for seed := worker; seed < lives; seed += workers {
				require.NoError(t, newModel(t, seed, admission, flaw{}).live(steps), "seed %d", seed)
			}
		})
	}
}
