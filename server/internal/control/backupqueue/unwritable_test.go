package backupqueue

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// TestAcceptQueue_Unwritable has Backups at the head of the queue that the API server refuses to write. The others
// run, also after a restart of the server. A refused backup runs when it is changed or no longer refused.
func TestAcceptQueue_Unwritable(t *testing.T) {
	t.Parallel()
	s := newQueueSite(t, 1)
	stop := s.RefuseUpdates(t)
	defer stop()
	s.Add(t, controllertest.NewBackup("a-bad", of("ns1"), controllertest.Refused),
		controllertest.NewBackup("b-bad", of("ns1"), controllertest.Refused))
	s.Add(t, controllertest.NewBackup("c-good", of("ns1")), controllertest.NewBackup("d-good", of("ns2")))
	metrics := s.restarted()
	s.shows("a-bad New", "b-bad New", "c-good ReadyToStart", "d-good Queued 1")
	require.Eventually(t, func() bool { return measured(t, metrics)["unwritable"] == 2 }, patience, 10*time.Millisecond)
	unwritable := s.queue.Unwritable()
	require.Len(t, unwritable, 2)
	require.Equal(t, "a-bad", unwritable[0].Name)
	require.Contains(t, unwritable[0].Message, "this one is not to be touched")
	s.hasEvent("a-bad", reasonUnwritable, "passed over in the queue: write backup a-bad: ")

	s.stop()
	s.start()
	s.move("c-good", velerov1.BackupPhaseInProgress)
	s.move("c-good", velerov1.BackupPhaseCompleted)
	s.shows("a-bad New", "b-bad New", "c-good Completed", "d-good ReadyToStart")
	s.move("d-good", velerov1.BackupPhaseInProgress)
	s.move("d-good", velerov1.BackupPhaseCompleted)

	// A change by a user leads to another attempt at once, the removal of the policy to one after a pause.
	b := s.Backup(t, "b-bad")
	before := b.DeepCopy()
	b.Labels = nil
	require.NoError(t, s.Patch(t.Context(), b, client.MergeFrom(before)))
	s.shows("a-bad New", "b-bad ReadyToStart", "c-good Completed", "d-good Completed")
	stop()
	s.move("b-bad", velerov1.BackupPhaseInProgress)
	s.move("b-bad", velerov1.BackupPhaseCompleted)
	s.shows("a-bad ReadyToStart", "b-bad Completed", "c-good Completed", "d-good Completed")
	require.Eventually(t, func() bool { return len(s.queue.Unwritable()) == 0 }, patience, 10*time.Millisecond)
}

// TestAcceptQueue_UnwritableInItsSlot has a ready and a running backup that cannot be written. Their slots go to
// others, which overlap them. Neither starts beside those, not even with another server.
func TestAcceptQueue_UnwritableInItsSlot(t *testing.T) {
	t.Parallel()
	refusal := apierrors.NewForbidden(schema.GroupResource{Group: "velero.io", Resource: "backups"}, "x",
		errors.New("this one is not to be touched"))
	mayStart := func(s *queueSite, name string, want bool) {
		s.t.Helper()
		require.Eventually(s.t, func() bool { // the queue may not have the ends of the others yet
			may, err := s.queue.MayStart(s.t.Context(), s.Backup(s.t, name))
			require.NoError(s.t, err)
			require.True(s.t, want || !may, name)
			return may == want
		}, patience, 20*time.Millisecond)
	}
	for _, phase := range []velerov1.BackupPhase{velerov1.BackupPhaseReadyToStart, velerov1.BackupPhaseInProgress} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			s := newQueueSite(t, 1)
			metrics := s.restarted()
			s.Add(t, controllertest.NewBackup("a-bad", of("ns1")))
			s.shows("a-bad ReadyToStart")
			mayStart(s, "a-bad", true)
			s.move("a-bad", phase)
			s.Add(t, controllertest.NewBackup("b", of("ns1")), controllertest.NewBackup("c", of("ns1")))
			s.shows("a-bad "+string(phase), "b Queued 1", "c Queued 2")

			first := s.queue.Refused(s.Backup(t, "a-bad"), refusal)
			s.shows("a-bad "+string(phase), "b ReadyToStart", "c Queued 1")
			require.Eventually(t, func() bool { m := measured(t, metrics); return m["unwritable"] == 1 && m["running"] == 1 },
				patience, 10*time.Millisecond)
			s.hasEvent("a-bad", reasonUnwritable, "holds no slot until it can be written: ")
			require.Greater(t, s.queue.Refused(s.Backup(t, "a-bad"), refusal), first, "the pause grows")
			mayStart(s, "a-bad", false)
			s.move("b", velerov1.BackupPhaseInProgress)
			mayStart(s, "a-bad", false)

			// Another server has no record of the refusal. The backup that is taken up first continues.
			s.stop()
			s.start()
			s.shows("a-bad "+string(phase), "b InProgress", "c Queued 1")
			mayStart(s, "b", true)
			mayStart(s, "a-bad", false)
			s.queue.Refused(s.Backup(t, "a-bad"), refusal)
			s.move("b", velerov1.BackupPhaseCompleted)
			s.shows("a-bad "+string(phase), "b Completed", "c ReadyToStart")
			mayStart(s, "a-bad", false)
			s.move("c", velerov1.BackupPhaseInProgress)
			s.move("c", velerov1.BackupPhaseCompleted)

			// A new attempt gives the backup a slot, until it is refused again.
			mayStart(s, "a-bad", true)
			s.Add(t, controllertest.NewBackup("d", of("ns2")))
			s.shows("a-bad "+string(phase), "b Completed", "c Completed", "d Queued 1")
			s.queue.Refused(s.Backup(t, "a-bad"), refusal)
			s.shows("a-bad "+string(phase), "b Completed", "c Completed", "d ReadyToStart")
			mayStart(s, "a-bad", false) // there is no overlap, but no free slot either
			s.move("a-bad", velerov1.BackupPhaseCompleted)
			require.Eventually(t, func() bool { return len(s.queue.Unwritable()) == 0 }, patience, 10*time.Millisecond)
		})
	}
}

// TestAcceptQueue_BucketAway has backups whose location is not available. They wait without blocking others, request
// its validation, and start when it is available. A backup whose location does not exist starts, and then fails.
func TestAcceptQueue_BucketAway(t *testing.T) {
	t.Parallel()
	s := newQueueSite(t, 3)
	asked := make(chan string, 100)
	s.locations = &Locations{Default: "far", Ask: func(name string) {
		select {
		case asked <- name:
		default:
		}
	}}
	in := func(location string) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) { b.Spec.StorageLocation = location }
	}
	s.Add(t, controllertest.NewLocation("near"),
		controllertest.NewLocation("far", func(l *velerov1.BackupStorageLocation) {
			l.Status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
		}))
	s.Add(t, controllertest.NewBackup("a-far", of("ns1")), controllertest.NewBackup("b-far", of("ns2"), in("far")))
	s.Add(t, controllertest.NewBackup("c-near", of("ns1"), in("near")), controllertest.NewBackup("d-nowhere", of("ns3"),
		in("nowhere")))
	metrics := s.restarted()
	s.shows("a-far Queued 1", "b-far Queued 2", "c-near ReadyToStart", "d-nowhere ReadyToStart")
	require.Equal(t, "far", <-asked)
	const why = "backup storage location far is Unavailable, and the backup starts when it is Available"
	require.Equal(t, reasonLocation+": "+why, s.says("a-far"))
	require.Equal(t, reasonLocation+": "+why, s.says("b-far"))
	require.Eventually(t, func() bool { return measured(t, metrics)["waiting "+reasonLocation] == 2 }, patience,
		10*time.Millisecond)
	s.hasEvent("a-far", reasonLocation, "position 1 in the queue: "+why)

	s.move("c-near", velerov1.BackupPhaseInProgress)
	s.move("c-near", velerov1.BackupPhaseCompleted)
	far := new(velerov1.BackupStorageLocation)
	require.NoError(t, s.Get(t.Context(), s.Request("far").NamespacedName, far))
	before := far.DeepCopy()
	far.Status.Phase = velerov1.BackupStorageLocationPhaseAvailable
	require.NoError(t, s.Patch(t.Context(), far, client.MergeFrom(before)))
	s.shows("a-far ReadyToStart", "b-far ReadyToStart", "c-near Completed", "d-nowhere ReadyToStart")
}

// TestAcceptQueue_WritesOfLongQueue counts the writes of a long queue.
func TestAcceptQueue_WritesOfLongQueue(t *testing.T) {
	t.Parallel()
	const backups, admissions = 300, 40
	m := newScene(t, 1)
	m.createMany(backups)
	require.NoError(t, m.rest())
	next := func() {
		for _, phase := range []velerov1.BackupPhase{velerov1.BackupPhaseInProgress, velerov1.BackupPhaseFailed} {
			var ready *velerov1.Backup
			m.observer.until(t.Context(), func() bool {
				i := slices.IndexFunc(m.observer.sorted(), holds)
				if i >= 0 {
					ready = m.observer.sorted()[i]
				}
				return i >= 0 || m.observer.broken != nil
			})
			m.move(ready, phase)
		}
	}
	// If there is a pause between the starts, a start costs one write, and the writes of the first positions and a few
	// others.
	before := m.line.writes.Load()
	for range admissions {
		next()
		require.NoError(t, m.rest())
	}
	quiet := m.line.writes.Load() - before
	t.Logf("%d writes for %d starts, each after a pause", quiet, admissions)
	require.LessOrEqual(t, quiet, int64(admissions*12))

	// Under load, positions are written only from time to time, here after the last start: fewer than three writes for
	// each backup.
	m.plane.stop()
	m.pace = Pace{Quiet: patience, Late: patience}
	m.start()
	for range admissions {
		next()
	}
	busy := m.line.writes.Load()
	m.plane.stop()
	m.pace = Pace{}
	m.start()
	require.NoError(t, m.rest())
	busy += m.line.writes.Load()
	t.Logf("%d writes for %d starts without a pause", busy, admissions)
	require.LessOrEqual(t, busy, int64(admissions*3))
}

// Positions are written after a pause, or some time after the first became wrong, independent of the clock.
func TestPaceOfPositions(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	at := start.Add
	pace := Pace{Quiet: 300 * time.Millisecond, Late: 3 * time.Second}
	var b backlog
	event := func(after time.Duration) { b.event.Store(new(at(after))) }
	require.Zero(t, b.pause(pace, true, at(0)), "nothing has happened since the start")
	require.Zero(t, b.pause(Pace{}, true, at(0)))
	b.clear()
	event(time.Second)
	require.Zero(t, b.pause(pace, false, at(time.Second)), "there are none")
	require.Equal(t, 300*time.Millisecond, b.pause(pace, true, at(time.Second)))
	require.Equal(t, 100*time.Millisecond, b.pause(pace, true, at(1200*time.Millisecond)))
	require.Zero(t, b.pause(pace, true, at(1300*time.Millisecond)), "it has been quiet")
	for after := time.Second; after < 4*time.Second; after += 100 * time.Millisecond { // a constant stream of events
		event(after)
		require.Positive(t, b.pause(pace, true, at(after)))
	}
	event(4 * time.Second)
	require.Zero(t, b.pause(pace, true, at(4*time.Second)))
	b.clear()
	require.Equal(t, 300*time.Millisecond, b.pause(pace, true, at(4*time.Second)), "the next ones")
}

// The positions are right within a second without other events, and within five under load, by the clock of the queue.
func TestPositionsAreRightSoon(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		events time.Duration // between two events; 0 for none
		most   time.Duration
	}{
		"quiet": {0, time.Second},
		"load":  {50 * time.Millisecond, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newQueueSite(t, 1)
			now := controllertest.Noon()
			q := &Controller{
				Cluster: s.Cluster.Cluster, Admission: s.admission, Limit: 1, Events: silent{}, Log: hclog.NewNullLogger(),
				Now: func() time.Time { return now }, Exact: queue.DefaultExact(), Pace: DefaultPace(),
			}
			pending := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer pending.ShutDown()
			s.Add(t, controllertest.NewBackup("a", of("ns")), controllertest.NewBackup("b", of("ns")),
				controllertest.NewBackup("c", of("ns")), controllertest.NewBackup("d", of("ns")))
			_, err := q.Reconcile(t.Context(), queueRequest())
			require.NoError(t, err)
			require.Equal(t, 2, s.Backup(t, "c").Status.QueuePosition)

			s.move("a", velerov1.BackupPhaseCompleted)
			q.wake(pending)
			began := now
			for s.Backup(t, "c").Status.QueuePosition != 1 || s.Backup(t, "d").Status.QueuePosition != 2 {
				result, err := q.Reconcile(t.Context(), queueRequest())
				require.NoError(t, err)
				require.Equal(t, velerov1.BackupPhaseReadyToStart, s.Backup(t, "b").Status.Phase, "it does not wait for positions")
				if tt.events > 0 {
					now = now.Add(tt.events)
					q.wake(pending)
				} else {
					now = now.Add(result.RequeueAfter)
				}
				require.LessOrEqual(t, now.Sub(began), tt.most)
			}
			require.Positive(t, now.Sub(began), "the positions are not written with each start")
		})
	}
}

// hasEvent waits for an event about a backup whose note begins with a text.
func (s *queueSite) hasEvent(name, reason, note string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		var list eventsv1.EventList
		require.NoError(s.t, s.List(s.t.Context(), &list, client.InNamespace(s.Namespace)))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.Reason == reason && strings.HasPrefix(e.Note, note)
		})
	}, patience, 50*time.Millisecond)
}
