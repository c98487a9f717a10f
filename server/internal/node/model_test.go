package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/server/internal/node/ledger"
	"github.com/cleat-dev/cleat/versioning/datamover"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
)

const modelNamespace = "velero"

// model simulates a random history of some agents. The cache of each agent is behind, its clock advances in jumps, and
// it is killed before or after any of its writes. Users create, cancel, edit and delete loads. The number of loads in
// preparation is checked after every write. In the end, every load must have ended.
type model struct {
	t      *testing.T
	random *rand.Rand
	store  client.Client // the API server
	limit  int
	agents []*modelAgent
	clock  time.Time
	made   int
	broken error // the first broken rule
	trace  []string
}

// modelAgent is an agent of a model.
type modelAgent struct {
	client.Client // of the model, with this agent's cache
	m             *model
	node          string
	starts        int
	cache         map[string]client.Object // by kind and name
	q             *admission
	writesLeft    int // until it is killed; negative for never
}

var errKilled = errors.New("the agent was killed")

func newModel(t *testing.T, seed uint64, agents int) *model {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, seed))
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(velerov1.AddToScheme(scheme), velerov2alpha1.AddToScheme(scheme),
		corev1.AddToScheme(scheme)))
	m := &model{
		t: t, random: random, limit: 1 + random.IntN(3), store: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
			modelBackup(),
		).Build(),
		clock: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC),
	}
	for i := range agents {
		a := &modelAgent{Client: m.store, m: m, node: fmt.Sprintf("n%d", i), cache: map[string]client.Object{},
			writesLeft: -1}
		a.start()
		m.agents = append(m.agents, a)
	}
	return m
}

func testKeys() *signing.Keys { return signing.Fixed(signing.NewKey([]byte("of tests"))) }

// start starts the next process of an agent, whose cache is new.
func (a *modelAgent) start() {
	a.starts++
	agent := &Agent{
		Cluster: &run.Cluster{Client: a, Live: a.m.store, Namespace: modelNamespace}, Node: a.node,
		Identity:    fmt.Sprintf("%s-%d", a.node, a.starts),
		QueueLength: a.m.limit, Soothing: a.m, Movers: a.m, Keys: modelKeys{}, Signing: testKeys(),
		Log: hclog.NewNullLogger(), Now: func() time.Time { return a.m.clock },
	}
	agent.kinds = []*kind{podVolumeBackups(), dataUploads()}
	a.q = newAdmission(agent)
	a.cache = map[string]client.Object{}
	a.sync(1)
}

// Admit implements Soothing, as the built-in policy does.
func (m *model) Admit(
	_ context.Context, request *loadsoothing.Request,
) (policy.Outcome[*loadsoothing.Decision], error) {
	preparing := 0
	for _, count := range request.Counts {
		preparing += count.Accepted + count.Prepared
	}
	decision := &loadsoothing.Decision{Admitted: preparing < request.Limit, Reason: "the limit"}
	return policy.Outcome[*loadsoothing.Decision]{Decision: decision}, nil
}

// Find implements Movers.
func (m *model) Find(name string, _ hostpath.Volume) (datamover.Mover, error) {
	if name == "" {
		return nil, errors.New("none")
	}
	return nil, nil //nolint:nilnil // never called
}

// Get reads from the cache.
func (a *modelAgent) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	known, ok := a.cache[cacheKey(object, key.Name)]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	copyInto(known, object)
	return nil
}

// List reads from the cache.
func (a *modelAgent) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	var items []runtime.Object
	for _, key := range slices.Sorted(maps.Keys(a.cache)) {
		object := a.cache[key]
		if strings.HasPrefix(key, strings.TrimSuffix(fmt.Sprintf("%T", list), "List")+"/") {
			items = append(items, object.DeepCopyObject())
		}
	}
	return meta.SetList(list, items)
}

func cacheKey(object client.Object, name string) string { return fmt.Sprintf("%T/%s", object, name) }

func copyInto(from, to client.Object) {
	switch to := to.(type) {
	case *corev1.ConfigMap:
		*to = *as[corev1.ConfigMap](from).DeepCopy()
	case *velerov1.PodVolumeBackup:
		*to = *as[velerov1.PodVolumeBackup](from).DeepCopy()
	case *velerov2alpha1.DataUpload:
		*to = *as[velerov2alpha1.DataUpload](from).DeepCopy()
	}
}

// Patch, Update and Create write to the API server, unless the agent is killed before the write. The agent may also be
// killed after the write.
func (a *modelAgent) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	return a.write(object, func() error { return a.m.store.Patch(ctx, object, patch, options...) })
}

// Update implements client.Client.
func (a *modelAgent) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return a.write(object, func() error { return a.m.store.Update(ctx, object, options...) })
}

// Create implements client.Client.
func (a *modelAgent) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return a.write(object, func() error { return a.m.store.Create(ctx, object, options...) })
}

func (a *modelAgent) write(object client.Object, write func() error) error {
	if a.writesLeft == 0 {
		return errKilled
	}
	err := write()
	about := ""
	if cm, ok := object.(*corev1.ConfigMap); ok {
		about = cm.Data["loads"]
	}
	a.m.log("%s writes %s: %v %s", a.node, cacheKey(object, object.GetName()), err, about)
	a.m.check()
	if a.writesLeft > 0 {
		if a.writesLeft--; a.writesLeft == 0 {
			return errKilled // stored, but the agent gets an error
		}
	}
	return err
}

func (m *model) log(format string, values ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, values...))
}

// objects returns the objects of the API server.
func (m *model) objects() map[string]client.Object {
	all := map[string]client.Object{}
	for _, list := range []client.ObjectList{new(velerov1.PodVolumeBackupList), new(velerov2alpha1.DataUploadList),
		new(corev1.ConfigMapList)} {
		require.NoError(m.t, m.store.List(m.t.Context(), list))
		require.NoError(m.t, meta.EachListItem(list, func(o runtime.Object) error {
			object, _ := o.DeepCopyObject().(client.Object)
			all[cacheKey(object, object.GetName())] = object
			return nil
		}))
	}
	return all
}

// loads returns the loads of the API server.
func (m *model) loads() []*load {
	var loads []*load
	objects := m.objects()
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		object := objects[key]
		for _, k := range []*kind{podVolumeBackups(), dataUploads()} {
			if k.is(object) {
				loads = append(loads, newLoad(k, object))
			}
		}
	}
	return loads
}

// check checks that no more loads are in preparation than the limit permits.
func (m *model) check() {
	preparing := 0
	for _, l := range m.loads() {
		if l.phase() == velerov1.LoadPhaseAccepted || l.phase() == velerov1.LoadPhasePrepared {
			preparing++
		}
	}
	if preparing > m.limit && m.broken == nil {
		m.broken = fmt.Errorf("%d loads are in preparation, the limit is %d; steps:\n%s", preparing, m.limit,
			strings.Join(m.trace, "\n"))
	}
}

// sync brings a part of the cache up to date.
func (a *modelAgent) sync(part float64) {
	now := a.m.objects()
	for _, key := range slices.Sorted(maps.Keys(now)) {
		object := now[key]
		if a.m.random.Float64() < part {
			if known := a.cache[key]; known != nil && known.GetUID() != object.GetUID() {
				a.q.deleted[known.GetUID()] = a.m.clock
			}
			a.cache[key] = object
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.cache)) {
		object := a.cache[key]
		if _, exists := now[key]; !exists && a.m.random.Float64() < part {
			a.q.deleted[object.GetUID()] = a.m.clock
			delete(a.cache, key)
		}
	}
}

// pass calls an agent to process the New loads. The agent is sometimes killed in the middle.
func (a *modelAgent) pass(kill bool) {
	if kill {
		a.writesLeft = a.m.random.IntN(4)
	}
	_, err := a.q.pass(a.m.t.Context())
	a.m.log("%s passes: %v", a.node, err)
	if kill {
		a.writesLeft = -1
		a.start()
		a.m.log("%s is started again", a.node)
	}
}

// advance moves an admitted load one step further, as its agent does.
func (m *model) advance(l *load) {
	next := map[velerov1.LoadPhase]velerov1.LoadPhase{
		velerov1.LoadPhaseAccepted: velerov1.LoadPhasePrepared, velerov1.LoadPhasePrepared: velerov1.LoadPhaseInProgress,
		velerov1.LoadPhaseInProgress: velerov1.LoadPhaseCompleted,
	}[l.phase()]
	if next != "" {
		l.status.Phase = next
		l.SetFinalizers(nil)
		require.NoError(m.t, m.agents[0].q.sign(m.t.Context(), l))
		m.log("%s becomes %s", l.key(), next)
		require.NoError(m.t, m.store.Update(m.t.Context(), l.Object))
	}
}

// lose makes a load New again, as an agent does if its volume has to be exposed again.
func (m *model) lose(l *load) {
	if l.phase().IsNew() || l.phase().Terminal() || l.podLabel == "" {
		return
	}
	l.clear(l.Object)
	l.status.Phase = velerov1.LoadPhaseNew
	l.setAttempt(l.attempt() + 1)
	m.log("%s is New again", l.key())
	require.NoError(m.t, m.store.Update(m.t.Context(), l.Object))
}

// user changes, deletes or creates a load.
func (m *model) user() {
	loads := m.loads()
	if len(loads) < 3 || m.random.IntN(2) == 0 {
		m.made++
		about := metav1.ObjectMeta{
			Namespace: modelNamespace, Name: fmt.Sprintf("l%d", m.made), UID: types.UID(fmt.Sprintf("uid-%d", m.made)),
			CreationTimestamp: metav1.NewTime(m.clock),
		}
		var object client.Object = &velerov2alpha1.DataUpload{ObjectMeta: about,
			Spec: velerov2alpha1.DataUploadSpec{DataMover: "mover"}}
		if m.random.IntN(2) == 0 {
			object = &velerov1.PodVolumeBackup{ObjectMeta: about, Spec: velerov1.PodVolumeBackupSpec{
				Node: m.agents[m.random.IntN(len(m.agents))].node, UploaderType: velerov1.RepositoryTypeRestic,
			}}
		}
		m.log("a user creates %s", cacheKey(object, about.Name))
		require.NoError(m.t, m.store.Create(m.t.Context(), signed(m.t, object)))
		return
	}
	l := loads[m.random.IntN(len(loads))]
	switch m.random.IntN(5) {
	case 0:
		m.lose(l)
	case 1:
		l.SetFinalizers(nil)
		require.NoError(m.t, m.store.Update(m.t.Context(), l.Object))
		require.NoError(m.t, m.store.Delete(m.t.Context(), l.Object))
		m.log("a user deletes %s", l.key())
	case 2:
		l.SetLabels(map[string]string{"edited": fmt.Sprint(m.random.IntN(1000))})
		require.NoError(m.t, m.store.Update(m.t.Context(), l.Object))
		m.log("a user edits %s", l.key())
	default:
		m.advance(l)
	}
}

// live takes random steps and then brings every load to its end. It returns the first broken rule.
func (m *model) live(steps int) error {
	for range steps {
		a := m.agents[m.random.IntN(len(m.agents))]
		switch m.random.IntN(8) {
		case 0, 1:
			m.user()
		case 2, 3:
			a.sync(m.random.Float64())
		case 4:
			m.clock = m.clock.Add(time.Duration(m.random.IntN(int(2 * patience))))
		case 5:
			a.pass(m.random.IntN(3) == 0)
		default:
			a.pass(false)
		}
		m.check()
		if m.broken != nil {
			return m.broken
		}
	}
	for range 2000 {
		open := 0
		for _, a := range m.agents {
			a.sync(1)
			a.pass(false)
			if m.broken != nil {
				return m.broken
			}
		}
		for _, l := range m.loads() {
			if !l.phase().Terminal() {
				open++
				m.advance(l)
			}
		}
		if open == 0 {
			return nil
		}
		m.clock = m.clock.Add(time.Second)
	}
	return fmt.Errorf("loads do not end; steps:\n%s", strings.Join(m.trace[max(0, len(m.trace)-60):], "\n"))
}

// TestNeverMoreLoadsAreInPreparationThanTheLimit runs many models.
func TestNeverMoreLoadsAreInPreparationThanTheLimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		require.NoError(t, newModel(t, seed, 3).live(120), "seed %d", seed)
	}
}

// TestNoteOfAnAcceptedLoadOutlivesAnOldCache lets an agent doubt a note whose load is Accepted, while it is New in the
// agent's cache.
func TestNoteOfAnAcceptedLoadOutlivesAnOldCache(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1, 2)
	m.limit = 1
	old, other := m.agents[0], m.agents[1]
	create := func(name string, of *modelAgent) {
		require.NoError(t, m.store.Create(t.Context(), signed(t, &velerov1.PodVolumeBackup{
			ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: name, UID: types.UID(name)},
			Spec:       velerov1.PodVolumeBackupSpec{Node: of.node, UploaderType: velerov1.RepositoryTypeRestic},
		})))
	}
	see := func(a *modelAgent, prefix string) {
		for key, object := range m.objects() {
			if strings.HasPrefix(key, prefix) {
				a.cache[key] = object
			}
		}
	}
	for _, a := range m.agents {
		a.start()
		a.pass(false)
		a.sync(1)
	}
	create("first", other)
	old.sync(1)
	other.sync(1)
	other.pass(false) // reserves
	other.sync(1)
	other.pass(false)
	see(old, cacheKey(new(corev1.ConfigMap), ""))
	create("second", old)
	for range 6 { // it also yields to the agent of the older one for a while
		see(old, cacheKey(new(velerov1.PodVolumeBackup), "second"))
		old.pass(false)
		m.clock = m.clock.Add(patience)
	}
	require.Contains(t, strings.Join(m.trace, "\n"), "n0 writes *v1.PodVolumeBackup/first: Operation cannot be fulfilled",
		"the agent has doubted the note")
	require.NoError(t, m.broken)
}

// TestLoadOfAnAgentThatIsAwayIsTaken has an agent accept or end the loads that are another agent's turn, which was
// killed.
func TestLoadOfAnAgentThatIsAwayIsTaken(t *testing.T) {
	t.Parallel()
	for name, cancelled := range map[string]bool{"accepted": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, 1, 2)
			left := m.agents[0]
			left.q.Soothing = nil
			for range 2 {
				for _, a := range m.agents {
					a.sync(1)
					a.pass(false)
				}
			}
			for i := range 8 { // half of them are the other agent's turn
				id := fmt.Sprintf("l%d", i)
				require.NoError(t, m.store.Create(t.Context(), signed(t, &velerov2alpha1.DataUpload{
					ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: id, UID: types.UID(id)},
					Spec:       velerov2alpha1.DataUploadSpec{DataMover: "mover", Cancel: cancelled},
				})))
			}
			taken := func() (n int) {
				left.sync(1)
				left.pass(false)
				for _, l := range m.loads() {
					if !l.phase().IsNew() {
						n++
					}
				}
				return n
			}
			require.Less(t, taken(), 8)
			m.clock = m.clock.Add(yieldFor)
			taken()
			require.Equal(t, 8, taken())
		})
	}
}

// TestModelFindsFlaw proves that the model detects an agent that admits without a note: the notes of its ledger are
// lost.
func TestModelFindsFlaw(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		m := newModel(t, seed, 3)
		m.forgetful()
		if err := m.live(120); err != nil {
			require.ErrorContains(t, err, "loads are in preparation, the limit is")
			return
		}
	}
	require.Fail(t, "no life shows the flaw")
}

// forgetful makes the API server lose all notes at once.
func (m *model) forgetful() {
	m.store = forgetfulStore{m.store}
	for _, a := range m.agents {
		a.Client = m.store
	}
}

type forgetfulStore struct{ client.Client }

// Update implements client.Client.
func (s forgetfulStore) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	err := s.Client.Update(ctx, object, options...)
	if cm, ok := object.(*corev1.ConfigMap); ok && cm.Name == ledger.Name && err == nil {
		cm.Data["loads"] = "{}"
		return s.Client.Update(ctx, cm)
	}
	return err
}
