package repositories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
)

const (
	namespace = "velero"
	// aloneName is the repository of restic in the model, which is maintained alone. Others are kopia's.
	aloneName = "a-l-restic"
)

// model is a random history of servers that are killed before or after any of their writes, whose caches are old, and
// of agents that move loads. In each step, it checks that no load is moved beside maintenance that needs the repository
// alone, and that no repository is maintained twice at once.
type model struct {
	t      *testing.T
	random *rand.Rand
	store  client.WithWatch // the API server
	cached map[string]*velerov1.BackupRepository
	clock  time.Time
	jobs   []*modelJob
	loads  []*modelLoad
	server *Controller
	writes int // of the server, until it is killed; negative for never
	made   int
}

type modelJob struct {
	Attempt

	of string
}

// modelLoad is a load that an agent moves, as node.Agent does.
type modelLoad struct {
	name          string
	moving, waits bool // as the API server has it
	looked        bool // and found no claim: its data is moved
}

var errKilled = errors.New("the server was killed")

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(velerov1.AddToScheme(scheme), velerov2alpha1.AddToScheme(scheme)))
	m := &model{
		t: t, random: rand.New(rand.NewPCG(seed, seed)), clock: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC),
		store:  fake.NewClientBuilder().WithScheme(scheme).Build(),
		cached: map[string]*velerov1.BackupRepository{}, writes: -1,
	}
	m.create(&velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Name: "l"},
		Status:     velerov1.BackupStorageLocationStatus{Phase: velerov1.BackupStorageLocationPhaseAvailable},
	})
	for _, engine := range []velerov1.RepositoryType{velerov1.RepositoryTypeKopia, velerov1.RepositoryTypeRestic} {
		m.create(&velerov1.BackupRepository{
			ObjectMeta: metav1.ObjectMeta{Name: "a-l-" + string(engine)},
			Spec: velerov1.BackupRepositorySpec{
				VolumeNamespace: "a", BackupStorageLocation: "l", RepositoryType: engine,
				MaintenanceFrequency: metav1.Duration{Duration: 2 * time.Hour},
			},
			Status: velerov1.BackupRepositoryStatus{Phase: velerov1.BackupRepositoryPhaseReady,
				LastMaintenanceTime: run.Timestamp(m.clock)},
		})
	}
	m.start()
	return m
}

func (m *model) create(object client.Object) {
	object.SetNamespace(namespace)
	require.NoError(m.t, m.store.Create(m.t.Context(), object))
}

// start starts the next server.
func (m *model) start() {
	m.writes = -1
	if m.random.IntN(3) > 0 {
		m.writes = m.random.IntN(6)
	}
	api := modelClient{m.store, m}
	m.server = &Controller{
		Cluster: &run.Cluster{Client: api, Live: m.store, Namespace: namespace}, Runner: modelRunner{m},
		Mover: func(name string) (bool, error) { return name == velerov1.ResticDataMover, nil },
		Check: func(context.Context, *velerov1.BackupRepository) error { return nil }, AtOnce: 1,
		StartTime: 10 * time.Minute, Patience: time.Hour,
		Log: hclog.NewNullLogger(), Now: func() time.Time { return m.clock },
	}
}

// modelClient is a client of a server, which may be killed by a write, and which reads from an old cache.
type modelClient struct {
	client.WithWatch
	m *model
}

func (c modelClient) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	of, ok := object.(*velerov1.BackupRepository)
	if !ok {
		return c.WithWatch.Get(ctx, key, object, options...)
	}
	known := c.m.cached[key.Name]
	if known == nil || c.m.random.IntN(3) > 0 {
		known = new(velerov1.BackupRepository)
		if err := c.WithWatch.Get(ctx, key, known); err != nil {
			return err
		}
		c.m.cached[key.Name] = known
	}
	known.DeepCopyInto(of)
	return nil
}

func (c modelClient) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	return c.m.write(func() error { return c.WithWatch.Patch(ctx, object, patch, options...) })
}

// write makes a write of the server, which may be its last one, and may be lost.
func (m *model) write(do func() error) error {
	if m.writes == 0 {
		if m.random.IntN(2) == 0 {
			_ = do()
		}
		return errKilled
	}
	m.writes--
	return do()
}

type modelRunner struct{ m *model }

func (r modelRunner) Start(_ context.Context, of *velerov1.BackupRepository, name string, _ maintenance.Job) error {
	return r.m.write(func() error {
		for _, j := range r.m.jobs {
			if j.Name == name {
				return nil
			}
		}
		r.m.jobs = append(r.m.jobs, &modelJob{Attempt: Attempt{Name: name, Began: r.m.clock}, of: of.Name})
		return nil
	})
}

func (r modelRunner) Attempts(_ context.Context, of *velerov1.BackupRepository) (all []Attempt, _ error) {
	for _, j := range r.m.jobs {
		if j.of == of.Name {
			all = append(all, j.Attempt)
		}
	}
	return all, nil
}

func (modelRunner) Result(_ context.Context, ended Attempt) (string, error) { return ended.Why, nil }

func (modelRunner) Waits(context.Context, Attempt) (string, error) { return "", nil }

func (r modelRunner) Remove(_ context.Context, _ *velerov1.BackupRepository, a Attempt) error {
	return r.m.write(func() error {
		r.m.jobs = slices.DeleteFunc(r.m.jobs, func(j *modelJob) bool { return j.Name == a.Name })
		return nil
	})
}

// step is one step of the history. Without faults, nothing is killed and no load begins.
func (m *model) step(faults bool) {
	switch m.random.IntN(5) {
	case 0:
		m.clock = m.clock.Add(time.Duration(m.random.IntN(40)) * time.Minute)
	case 1:
		for _, j := range m.jobs {
			if j.Running() && m.random.IntN(2) == 0 {
				j.Ended = m.clock
				if faults && m.random.IntN(4) == 0 {
					j.Failed, j.Why = true, "the repository is locked"
				}
			}
		}
	case 2:
		if faults && m.random.IntN(4) == 0 {
			m.begin()
		}
		for _, l := range m.loads {
			m.move(l)
		}
		m.loads = slices.DeleteFunc(m.loads, func(l *modelLoad) bool { return l.name == "" })
	default:
		for _, name := range []string{"a-l-kopia", aloneName} {
			_, err := m.server.Reconcile(m.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace,
				Name: name}})
			if errors.Is(err, errKilled) {
				m.start()
				continue
			}
			require.NoError(m.t, err)
		}
	}
	if !faults {
		m.writes = -1
	}
	m.check()
}

// begin begins a load.
func (m *model) begin() {
	m.made++
	l := &modelLoad{name: fmt.Sprint("load-", m.made), moving: true}
	m.create(&velerov1.PodVolumeBackup{
		ObjectMeta: metav1.ObjectMeta{Name: l.name},
		Spec: velerov1.PodVolumeBackupSpec{
			Pod: velerov1.ObjectReference{Namespace: "a"}, BackupStorageLocation: "l",
			UploaderType: velerov1.RepositoryTypeRestic,
		},
		Status: velerov1.PodVolumeBackupStatus{LoadStatus: velerov1.LoadStatus{Phase: velerov1.LoadPhaseInProgress}},
	})
	m.loads = append(m.loads, l)
}

// move makes one step of an agent with a load: it looks for a claim, writes whether the load waits, or ends it.
func (m *model) move(l *modelLoad) {
	var of velerov1.BackupRepository
	require.NoError(m.t, m.store.Get(m.t.Context(), client.ObjectKey{Namespace: namespace, Name: aloneName}, &of))
	claim := run.MaintenanceOf(&of)
	switch {
	case m.random.IntN(2) == 0:
	case l.looked && m.random.IntN(3) == 0:
		m.state(l, velerov1.LoadPhaseCompleted, "")
		l.name = ""
	case l.looked:
	case claim != nil && !l.waits:
		m.state(l, velerov1.LoadPhaseInProgress, run.WaitsForMaintenance)
		l.waits = true
	case claim != nil:
	case l.waits:
		m.state(l, velerov1.LoadPhaseInProgress, "")
		l.waits = false // and looks again
	default:
		l.looked = true
	}
}

func (m *model) state(l *modelLoad, phase velerov1.LoadPhase, message string) {
	var now velerov1.PodVolumeBackup
	require.NoError(m.t, m.store.Get(m.t.Context(), client.ObjectKey{Namespace: namespace, Name: l.name}, &now))
	now.Status.Phase, now.Status.Message = phase, message
	require.NoError(m.t, m.store.Update(m.t.Context(), &now))
}

// check checks what holds at any time.
func (m *model) check() {
	running := map[string]int{}
	for _, j := range m.jobs {
		if j.Running() {
			running[j.of]++
		}
	}
	for name, n := range running {
		require.Equal(m.t, 1, n, name)
	}
	require.LessOrEqual(m.t, len(running), 1, "more repositories at once than configured")
	for _, l := range m.loads {
		require.False(m.t, l.looked && running[aloneName] > 0, "%s is moved beside maintenance", l.name)
	}
	var all velerov1.BackupRepositoryList
	require.NoError(m.t, m.store.List(m.t.Context(), &all))
	for _, of := range all.Items {
		recent := of.Status.RecentMaintenance
		require.LessOrEqual(m.t, len(recent), history)
		for i := 1; i < len(recent); i++ {
			require.True(m.t, recent[i-1].StartTimestamp.Before(recent[i].StartTimestamp), "%v", recent)
		}
	}
}

// allAfter reports whether all repositories were maintained after a time.
func (m *model) allAfter(at time.Time) bool {
	var all velerov1.BackupRepositoryList
	require.NoError(m.t, m.store.List(m.t.Context(), &all))
	return !slices.ContainsFunc(all.Items, func(of velerov1.BackupRepository) bool {
		return !of.Status.LastMaintenanceTime.After(at)
	})
}

func TestModelOfServersAndAgents(t *testing.T) {
	t.Parallel()
	const seeds = 12
	maintained := 0
	for seed := range uint64(seeds) {
		m := newModel(t, seed)
		for range 300 {
			m.step(true)
		}
		begin := m.clock
		for range 3000 { // all ends well: each repository is maintained, no load waits
			m.step(false)
			if len(m.loads) == 0 && m.allAfter(begin) {
				break
			}
		}
		require.Empty(t, m.loads)
		var all velerov1.BackupRepositoryList
		require.NoError(t, m.store.List(t.Context(), &all))
		for _, of := range all.Items {
			last := of.Status.RecentMaintenance[len(of.Status.RecentMaintenance)-1]
			require.Equal(t, velerov1.BackupRepositoryMaintenanceSucceeded, last.Result, "seed %d: %s", seed, of.Name)
			require.True(t, of.Status.LastMaintenanceTime.After(begin), "seed %d: %s", seed, of.Name)
			maintained++
		}
	}
	require.Equal(t, 2*seeds, maintained)
}
