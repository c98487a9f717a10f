package backupqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/namespaceoverlap"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// ends returns the ways in which a backup leaves its slot or the queue.
func ends() []string {
	return []string{"invalid", deletedQueued, "completed", deletedReady, "failed", "deleted in progress",
		"waits for operations"}
}

const (
	deletedQueued = "deleted when queued"
	deletedReady  = "deleted when ready"
)

// TestAcceptQueue_NoLostWakeup brings 200 backups to all possible ends, without a sweep: whenever one frees its slot,
// by any way, the next one gets it.
func TestAcceptQueue_NoLostWakeup(t *testing.T) {
	t.Parallel()
	const backups = 200
	m := newModel(t, 11, newAdmission(t, namespaceoverlap.Name, namespaceoverlap.Register()), flaw{})
	defer m.end()
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
		// No backup holds a slot: either the queue is about to admit one, or it is idle, and then the rules must hold.
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
	missed := want[deletedQueued] - ended[deletedQueued] // they were admitted before they could be deleted
	want[deletedQueued] -= missed
	want[deletedReady] += missed
	require.Equal(t, want, ended)
}

// leave starts a backup or brings it to its destined end. It returns how the backup left.
//
// A backup that is to be deleted when queued is deleted near the front. At the first check, at least one is still
// queued: five such backups had a position near the front, and at most four of them were admitted.
func (m *model) leave(b *velerov1.Backup, end string) string {
	front := 5 * len(ends())
	phase := run.BackupPhase(b)
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

// newScene returns a model without random steps.
func newScene(t *testing.T, limit int) *model {
	t.Helper()
	m := newModelOf(t, queueRules{limit: limit, exact: queue.DefaultExact()}, rand.New(rand.NewPCG(1, 1)),
		newAdmission(t, namespaceoverlap.Name, namespaceoverlap.Register()), flaw{})
	m.line.conflicts = false
	t.Cleanup(m.end)
	return m
}

// addOf creates a backup of some of the model's namespaces.
func (m *model) addOf(name string, namespaces ...string) {
	for i := range namespaces {
		namespaces[i] = m.prefix() + namespaces[i]
	}
	m.add(controllertest.NewBackup(name, of(namespaces...)))
}

// shows waits until the queue is idle, checks the rules, and then requires the phases of all backups, each as "name
// Phase".
func (m *model) shows(want ...string) {
	m.t.Helper()
	require.NoError(m.t, m.rest())
	var got []string
	for _, b := range m.observer.backups() {
		got = append(got, b.Name+" "+string(run.BackupPhase(b)))
	}
	require.Equal(m.t, want, got)
}

// A terminating namespace counts. When it is deleted, a backup that waited only because of it starts.
func TestDeletedNamespaceWakesTheQueue(t *testing.T) {
	t.Parallel()
	m := newScene(t, 2)
	shop := m.prefix() + "a"
	m.makeNamespace(shop)
	m.addOf("first", "[ab]*")
	m.addOf("second", "*a")
	m.shows("first ReadyToStart", "second Queued")
	m.endNamespace(shop)
	m.addOf("third", "*a") // causes another decision
	m.shows("first ReadyToStart", "second Queued", "third Queued")
	m.removeNamespace(shop)
	m.shows("first ReadyToStart", "second ReadyToStart", "third Queued")
}

// A backup that is deleted while the queue receives no events is not tried repeatedly, and does not block the next
// one.
func TestBackupDeletedUnnoticedIsPassedOver(t *testing.T) {
	t.Parallel()
	m := newScene(t, 2)
	shop := m.prefix() + "a"
	m.makeNamespace(shop)
	m.addOf("first", "[ab]*")
	m.addOf("second", "*a", "c")
	m.addOf("third", "*a", "c")
	m.shows("first ReadyToStart", "second Queued", "third Queued")
	m.plane.(*realPlane).streams.hold()
	m.remove(m.named("second"))
	m.removeNamespace(shop)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m.observer.until(ctx, func() bool { return holds(m.observer.state["third"]) || m.observer.broken != nil })
	m.plane.(*realPlane).streams.release()
	m.shows("first ReadyToStart", "third ReadyToStart")
}

// Patterns that no namespace matches include none and block no other backup.
func TestPatternWithoutNamespacesBlocksNoBackup(t *testing.T) {
	t.Parallel()
	m := newScene(t, 2)
	m.addOf("first", "*a")
	m.addOf("second", "*a")
	m.shows("first ReadyToStart", "second ReadyToStart")
}

// When a backup is deleted in any phase, immediately or with a finalizer, the next one gets its slot.
func TestBackupIsDeletedInEachPhase(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		m := newScene(t, 1)
		for _, phase := range []velerov1.BackupPhase{
			velerov1.BackupPhaseNew, velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart,
			velerov1.BackupPhaseInProgress,
			velerov1.BackupPhaseWaitingForPluginOperations, velerov1.BackupPhaseFinalizing, velerov1.BackupPhaseCompleted,
			velerov1.BackupPhaseFailed, velerov1.BackupPhaseFailedValidation, velerov1.BackupPhaseDeleting,
		} {
			target := controllertest.NewBackup("a-"+strings.ToLower(string(phase)), controllertest.InPhase(phase))
			if held {
				target.Finalizers = []string{testFinalizer}
			}
			if phase == velerov1.BackupPhaseQueued {
				m.addOf("0-ahead", "a")
				require.NoError(t, m.rest())
			}
			if phase == velerov1.BackupPhaseNew {
				m.plane.stop() // or it would not stay New
			}
			m.add(target)
			m.addOf("b-next", "a")
			if phase != velerov1.BackupPhaseNew {
				require.NoError(t, m.rest())
			}
			m.remove(m.named(target.Name))
			if phase == velerov1.BackupPhaseNew {
				m.start()
			}
			require.NoError(t, m.rest())
			for len(m.observer.backups()) > 0 {
				for _, b := range m.observer.backups() {
					m.drain(b)
				}
				require.NoError(t, m.rest())
			}
		}
	}
}

func (m *model) named(name string) *velerov1.Backup {
	for _, b := range m.observer.backups() {
		if b.Name == name {
			return b
		}
	}
	require.Fail(m.t, "no such backup", name)
	return nil
}

// When the watches of Backups and namespaces break, and changes cause no events meanwhile, the queue continues with
// the current state.
func TestQueueRecoversFromBrokenWatches(t *testing.T) {
	t.Parallel()
	m := newScene(t, 2)
	m.makeNamespace(m.prefix() + "a")
	m.addOf("1-ends", "b")
	m.addOf("2-goes", "*a")
	m.shows("1-ends ReadyToStart", "2-goes ReadyToStart")
	m.move(m.named("1-ends"), velerov1.BackupPhaseInProgress)
	m.addOf("3-waits", "b")
	m.addOf("4-goes", "b")
	m.addOf("5-waits", "[a]*", "a")
	m.addOf("6-again", "c")
	m.shows("1-ends InProgress", "2-goes ReadyToStart", "3-waits Queued", "4-goes Queued", "5-waits Queued",
		"6-again Queued")

	m.plane.(*realPlane).streams.lose()
	m.move(m.named("1-ends"), velerov1.BackupPhaseCompleted)
	m.remove(m.named("2-goes"))
	m.remove(m.named("4-goes"))
	m.remove(m.named("6-again"))
	m.observer.awaitDeletion("6-again", true)
	m.addOf("6-again", "d")
	m.removeNamespace(m.prefix() + "a")
	m.makeNamespace(m.prefix() + "e")
	m.plane.(*realPlane).streams.find()
	m.shows("1-ends Completed", "3-waits ReadyToStart", "5-waits ReadyToStart", "6-again Queued")
}

// A thousand backups that are created at once all get their positions.
func TestThousandBackupsAtOnce(t *testing.T) {
	t.Parallel()
	const backups = 1000
	m := newScene(t, 3)
	m.createMany(backups)
	require.NoError(t, m.rest())
	require.Len(t, m.observer.backups(), backups)
	for _, phase := range []velerov1.BackupPhase{velerov1.BackupPhaseInProgress, velerov1.BackupPhaseFailed} {
		for _, b := range m.observer.backups() {
			if holds(b) {
				m.move(b, phase)
			}
		}
	}
	require.NoError(t, m.rest())
}

// createMany creates random backups as fast as possible.
func (m *model) createMany(backups int) {
	const hands = 8
	var all []*velerov1.Backup
	for i := range backups {
		all = append(all, controllertest.NewBackup(fmt.Sprintf("b%04d", i),
			func(b *velerov1.Backup) { b.Spec, b.Namespace = m.spec(), m.plane.name() }))
	}
	var created errgroup.Group
	for some := range slices.Chunk(all, (backups+hands-1)/hands) {
		created.Go(func() error {
			for _, b := range some {
				if err := m.plane.(*realPlane).cluster.Create(m.t.Context(), b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(m.t, created.Wait())
	for _, b := range all {
		m.observer.await(b)
	}
}

// A backup that is created between the queue's list from the cache and the decision made on it gets a decision of its
// own, even if it was already in a list from the API server.
func TestBackupCreatedDuringListIsNoticed(t *testing.T) {
	t.Parallel()
	m := newModelOf(t, queueRules{limit: 2, exact: queue.DefaultExact()}, rand.New(rand.NewPCG(1, 1)),
		newAdmission(t, namespaceoverlap.Name, namespaceoverlap.Register()), flaw{
			client: func(_ *Controller, c client.Client) client.Client { return &slowLister{Client: c} },
		})
	t.Cleanup(m.end)
	m.line.conflicts = false
	m.addOf("first", "a")
	m.shows("first ReadyToStart")
	m.observer.queue.view.doubt() // as after a failed write: the next decision reads from the API server, too
	m.plane.hold()
	slow := m.line.Client.(*slowLister) //nolint:forcetypeassert // made above
	slow.set(func() {                   // the new backup is not in the cache yet
		m.plane.release()
		m.observer.until(t.Context(), func() bool { return m.observer.queue.heardAll(m.observer.state) })
	})
	m.addOf("late", "b")
	m.makeNamespace(m.prefix() + "z") // requests a decision
	m.shows("first ReadyToStart", "late ReadyToStart")
}

// slowLister calls a function once, after it has read a list of Backups.
type slowLister struct {
	client.Client
	mu     sync.Mutex
	listed func()
}

func (s *slowLister) set(listed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = listed
}

func (s *slowLister) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := s.Client.List(ctx, list, opts...)
	if _, ok := list.(*velerov1.BackupList); !ok {
		return err
	}
	s.mu.Lock()
	listed := s.listed
	s.listed = nil
	s.mu.Unlock()
	if listed != nil {
		listed()
	}
	return err
}
