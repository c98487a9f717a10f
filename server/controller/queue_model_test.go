package controller

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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/namespaceoverlap"
)

// model is one random life of a queue on the real API server: what users and the controller of backups may do, what may
// happen to the server, and after each step the rules.
type model struct {
	t        *testing.T
	cluster  *Cluster
	random   *rand.Rand
	observer *observer
	flaw     flaw

	admission decider
	line      *faultyClient // of the running queue
	stop      func()
	story     []string
	count     int
	spaces    []string // namespaces in the cluster that backups may mean
}

// flaw is a weakness that is planted into the queue; the zero flaw is none.
type flaw struct {
	// watch stands between the watches and the queue; nil changes nothing.
	watch func(*Queue, handler.EventHandler) handler.EventHandler
	// admission stands between the queue and its policy.
	admission func(decider) decider
	// client stands between the queue and the API server.
	client func(*Queue, client.Client) client.Client
}

// errDead is what a server that was killed hears of the API server.
var errDead = errors.New("the server is dead")

// faultyClient writes for the queue, as long as its server lives.
type faultyClient struct {
	client.Client
	observer  *observer
	conflicts bool         // every second write meets a conflict that is none
	left      atomic.Int64 // writes until the server is killed; negative is never
	last      bool         // the write with which it is killed is carried out, and the answer lost
	writes    atomic.Int64
}

func (c *faultyClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	n := c.writes.Add(1)
	switch left := c.left.Add(-1); {
	case left < -1<<40: // it was never to be killed
	case left < -1:
		return errDead
	case left == -1:
		if c.last {
			_ = c.write(ctx, obj, patch, opts) // nobody hears of it
		}
		return errDead
	}
	if c.conflicts && n%2 == 0 {
		return apierrors.NewConflict(velerov1.Resource("backups"), obj.GetName(), errors.New("planted"))
	}
	return c.write(ctx, obj, patch, opts)
}

func (c *faultyClient) write(ctx context.Context, obj client.Object, patch client.Patch, opts []client.PatchOption) error {
	err := c.Client.Patch(ctx, obj, patch, opts...)
	if err == nil {
		c.observer.wrote(obj)
	}
	return err
}

// start starts a server's queue.
func (m *model) start() {
	m.t.Helper()
	mgr := newQueueManager(m.t, m.cluster.Namespace)
	q := &Queue{Limit: m.observer.rules.limit, Events: silent{}, Log: hclog.NewNullLogger(), Now: time.Now, Admission: alone{m.admission}}
	writes := mgr.GetClient()
	if m.flaw.client != nil {
		writes = m.flaw.client(q, writes)
	}
	m.line = &faultyClient{Client: writes, observer: m.observer, conflicts: m.random.IntN(6) == 0}
	m.line.left.Store(-1 << 50)
	q.Cluster = &Cluster{Client: m.line, Live: mgr.GetAPIReader(), Namespace: m.cluster.Namespace}
	if m.flaw.admission != nil {
		q.Admission = alone{m.flaw.admission(m.admission)}
	}
	watched := newWatchedQueue(q, m.observer)
	r := registrar{mgr: mgr, log: hclog.NewNullLogger()}
	watched.setup(&r, m.flaw)
	require.NoError(m.t, r.err)
	ctx, cancel := context.WithCancel(m.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	m.stop = func() {
		cancel()
		require.NoError(m.t, <-ended)
	}
}

// silent writes no events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// newModel prepares a life that is the same for the same seed, as far as the processes of one machine are.
func newModel(t *testing.T, seed uint64, admission decider, f flaw) *model {
	t.Helper()
	m := &model{t: t, cluster: newCluster(t, nil), random: rand.New(rand.NewPCG(seed, seed)), admission: admission, flaw: f}
	m.observer = newObserver(queueRules{limit: 1 + m.random.IntN(4)})
	config, err := clientcmd.BuildConfigFromFlags("", plane.Get(t).Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	scheme, err := Scheme()
	require.NoError(t, err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	m.cluster = &Cluster{Client: c, Live: c, Namespace: m.cluster.Namespace}
	require.NoError(t, m.observer.follow(t.Context(), c, m.cluster.Namespace))
	m.start()
	return m
}

// live takes steps until a rule is broken, and then lets every backup come to its end. It answers the broken rule, with
// the story so far.
func (m *model) live(steps int) error {
	defer func() { m.stop() }()
	for range steps {
		if err := m.step(); err != nil {
			return m.tell(err)
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
			return m.tell(err)
		}
	}
	return m.tell(errors.New("not every backup comes to its end"))
}

func (m *model) tell(err error) error {
	return fmt.Errorf("%w, after:\n%s\nwith limit %d, and at the end:\n%s", err, strings.Join(m.story, "\n"), m.observer.rules.limit, m.picture())
}

// picture is every backup in a line.
func (m *model) picture() string {
	var lines []string
	for _, b := range m.observer.backups() {
		lines = append(lines, fmt.Sprintf("%s %s %d %v -%v deleted=%v %s", b.Name, backupPhase(b), b.Status.QueuePosition,
			b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces, b.DeletionTimestamp != nil, b.Annotations[velerov1.QueueWaitAnnotation]))
	}
	return strings.Join(lines, "\n")
}

func (m *model) note(format string, args ...any) {
	m.story = append(m.story, fmt.Sprintf(format, args...))
}

// rest waits until the queue has dealt with what the test has done.
func (m *model) rest() error {
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute) // for a queue that never rests; none is as slow
	defer cancel()
	return m.observer.rest(ctx)
}

// step does one thing at random, and waits for the rest.
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
	case dice < 81:
		m.delete()
	case dice < 84:
		m.editPosition()
	case dice < 86:
		m.editSpec()
	case dice < 88:
		m.moveOne([]velerov1.BackupPhase{"Queued", "ReadyToStart", "Completed", "FailedValidation"}[m.random.IntN(4)], velerov1.BackupPhaseNew)
	case dice < 89:
		m.moveOne(velerov1.BackupPhaseQueued, velerov1.BackupPhaseDeleting)
	case dice < 91:
		m.changeNamespaces()
	case dice < 95:
		m.burst()
	case dice < 97:
		m.note("restart")
		m.stop()
		m.start()
	default:
		m.kill()
	}
	return m.rest()
}

// pick is one of the backups in a phase, by chance; nil when there is none.
func (m *model) pick(phases ...velerov1.BackupPhase) *velerov1.Backup {
	var some []*velerov1.Backup
	for _, b := range m.observer.backups() {
		if len(phases) == 0 || slices.Contains(phases, backupPhase(b)) && b.DeletionTimestamp == nil {
			some = append(some, b)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[m.random.IntN(len(some))]
}

// prefix is that of the namespaces of this life: the cluster has others.
func (m *model) prefix() string { return m.cluster.Namespace + "-" }

// some are namespaces or patterns for them, that exist or not.
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

// create creates a backup and answers its name. The names are in the order of creation.
func (m *model) create() string {
	m.count++
	b := newBackup(fmt.Sprintf("b%03d", m.count), func(b *velerov1.Backup) { b.Spec, b.Namespace = m.spec(), m.cluster.Namespace })
	if m.random.IntN(10) == 0 {
		b.Finalizers = []string{testFinalizer}
	}
	m.note("create %s %v -%v", b.Name, b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces)
	require.NoError(m.t, m.cluster.Create(m.t.Context(), b))
	m.observer.await(b)
	return b.Name
}

// patch changes a backup as somebody else than the queue does.
func (m *model) patch(b *velerov1.Backup, change func(*velerov1.Backup)) {
	changed := b.DeepCopy()
	change(changed)
	if from, to := backupPhase(b), backupPhase(changed); from != to {
		m.observer.expects(b.Name, to)
	}
	require.NoError(m.t, client.IgnoreNotFound(m.cluster.Patch(m.t.Context(), changed, client.MergeFrom(b))))
	m.observer.await(changed)
}

func (m *model) move(b *velerov1.Backup, to velerov1.BackupPhase) {
	m.note("%s from %s to %s", b.Name, backupPhase(b), to)
	m.patch(b, func(b *velerov1.Backup) { b.Status.Phase = to })
}

func (m *model) moveOne(from, to velerov1.BackupPhase) {
	if b := m.pick(from); b != nil {
		m.move(b, to)
	}
}

func (m *model) finish() {
	phases := []velerov1.BackupPhase{"Completed", "Failed", "WaitingForPluginOperations", "Finalizing"}
	if b := m.pick(velerov1.BackupPhaseInProgress); b != nil {
		m.move(b, phases[m.random.IntN(len(phases))])
	}
}

func (m *model) delete() {
	if b := m.pick(); b != nil && b.DeletionTimestamp == nil {
		m.remove(b)
	}
}

func (m *model) remove(b *velerov1.Backup) {
	m.note("delete %s, which is %s", b.Name, backupPhase(b))
	require.NoError(m.t, client.IgnoreNotFound(m.cluster.Delete(m.t.Context(), b.DeepCopy())))
	m.observer.awaitDeletion(b.Name, false)
}

func (m *model) editPosition() {
	if b := m.pick(velerov1.BackupPhaseQueued); b != nil {
		position := []int{0, -1, 1, 2, 1_000_000_000}[m.random.IntN(5)]
		m.note("%s to place %d by hand", b.Name, position)
		m.patch(b, func(b *velerov1.Backup) { b.Status.QueuePosition = position })
	}
}

func (m *model) editSpec() {
	if b := m.pick(velerov1.BackupPhaseQueued); b != nil {
		spec := m.spec()
		m.note("%s is of %v -%v from now on", b.Name, spec.IncludedNamespaces, spec.ExcludedNamespaces)
		m.patch(b, func(b *velerov1.Backup) { b.Spec = spec })
	}
}

// changeNamespaces makes a namespace. That one goes is left to a test of its own: it takes the cluster a while.
func (m *model) changeNamespaces() {
	name := m.prefix() + string(rune('a'+m.random.IntN(7)))
	if slices.Contains(m.spaces, name) {
		return
	}
	m.note("namespace %s", name)
	m.spaces = append(m.spaces, name)
	require.NoError(m.t, m.cluster.Create(m.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	m.observer.setNamespaces(m.spaces)
}

// burst does several things at once.
func (m *model) burst() {
	m.note("burst:")
	for range 2 + m.random.IntN(4) {
		if m.random.IntN(2) == 0 {
			m.create()
		} else {
			m.finish()
		}
	}
}

// kill ends the server between two writes, or in one that is carried out.
func (m *model) kill() {
	m.line.last = m.random.IntN(2) == 0
	left := m.random.Int64N(4)
	m.note("kill after %d writes, the next one is carried out: %v", left, m.line.last)
	m.line.left.Store(left)
	m.burst()
	m.observer.until(m.t.Context(), func() bool { return m.line.left.Load() < 0 || m.observer.idle() })
	m.stop()
	m.start()
}

// drain takes a backup one step nearer to its end.
func (m *model) drain(b *velerov1.Backup) {
	switch phase := backupPhase(b); {
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

// TestAcceptQueue_Model lets many queues live at random, without a sweep: nothing happens without a reason.
func TestAcceptQueue_Model(t *testing.T) {
	t.Parallel()
	const lives, steps, workers = 300, 50, 6
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

// ends are the ways in which a backup leaves its place, or the queue.
func ends() []string {
	return []string{"invalid", deletedQueued, "completed", deletedReady, "failed", "deleted in progress", "waits for operations"}
}

const (
	deletedQueued = "deleted when queued"
	deletedReady  = "deleted when ready"
)

// TestAcceptQueue_NoLostWakeup has 200 backups come to all the ends there are, without a sweep: whenever somebody leaves his
// place, in whatever way, the next one gets it.
func TestAcceptQueue_NoLostWakeup(t *testing.T) {
	t.Parallel()
	const backups = 200
	m := newModel(t, 11, newAdmission(t, namespaceoverlap.Name, namespaceoverlap.Register()), flaw{})
	defer func() { m.stop() }()
	destined, want, ended := map[string]string{}, map[string]int{}, map[string]int{}
	for i := range backups {
		end := ends()[i%len(ends())]
		destined[m.create()] = end
		want[end]++
	}
	require.NoError(t, m.rest())
	for {
		acted := false
		for _, b := range m.observer.backups() {
			if how := m.leave(b, destined[b.Name]); how != "" {
				ended[how]++
				acted = true
			}
		}
		if acted {
			continue
		}
		// Nobody has a place to leave: either the queue is about to give one, or it rests, and then all must be right.
		held := false
		m.observer.until(t.Context(), func() bool {
			held = slices.ContainsFunc(m.observer.sorted(), holds)
			return held || m.observer.broken != nil || m.observer.idle()
		})
		if !held {
			require.NoError(t, m.rest())
			require.False(t, slices.ContainsFunc(m.observer.backups(), isQueued))
			break
		}
	}
	require.Positive(t, ended[deletedQueued])
	missed := want[deletedQueued] - ended[deletedQueued] // they were admitted before their turn to be deleted
	want[deletedQueued] -= missed
	want[deletedReady] += missed
	require.Equal(t, want, ended)
}

// leave has a backup start, or come to the end it is destined to, and says how it left.
//
// Whoever is to be deleted when queued is so when he comes near to the front. At the first look that is so for one at
// least: so many first places have had five such backups, and at most four of them have been admitted.
func (m *model) leave(b *velerov1.Backup, end string) string {
	front := 5 * len(ends())
	phase := backupPhase(b)
	if b.DeletionTimestamp != nil {
		m.drain(b)
		return ""
	}
	switch {
	case phase == velerov1.BackupPhaseQueued && end == deletedQueued && b.Status.QueuePosition <= front:
		m.remove(b)
		return deletedQueued
	case phase == velerov1.BackupPhaseReadyToStart && (end == deletedReady || end == deletedQueued):
		m.remove(b)
		return deletedReady
	case phase == velerov1.BackupPhaseReadyToStart && end == "invalid":
		m.move(b, velerov1.BackupPhaseFailedValidation)
		return end
	case phase == velerov1.BackupPhaseReadyToStart:
		m.move(b, velerov1.BackupPhaseInProgress)
		return ""
	case phase != velerov1.BackupPhaseInProgress:
		return ""
	}
	switch end {
	case "completed":
		m.move(b, velerov1.BackupPhaseFinalizing)
	case "failed":
		m.move(b, velerov1.BackupPhaseFailed)
	case "waits for operations":
		m.move(b, velerov1.BackupPhaseWaitingForPluginOperations)
	default:
		m.remove(b)
	}
	return end
}
