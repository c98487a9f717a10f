package backupqueue

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/controllertest"
)

// refuse makes the API server refuse all changes of the Backups of a namespace that have the label "refuse", until the
// returned function is called.
func refuse(t *testing.T, s *queueSite) (stop func()) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse-" + s.Namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"velero.io"}, APIVersions: []string{"v1"}, Resources: []string{"backups"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: "!(has(object.metadata.labels) && 'refuse' in object.metadata.labels)", Message: "this one is not to be touched",
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}}},
		},
	}
	require.NoError(t, s.Create(t.Context(), policy))
	require.NoError(t, s.Create(t.Context(), binding))
	probe := controllertest.NewBackup("probe", controllertest.InPhase(velerov1.BackupPhaseCompleted), labelled)
	s.Add(t, probe)
	require.Eventually(t, func() bool { // it takes a while until the policy is in force
		err := s.Patch(t.Context(), probe.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"}}}`)), client.DryRunAll)
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
	}, patience, 50*time.Millisecond)
	require.NoError(t, s.Delete(t.Context(), probe))
	return sync.OnceFunc(func() {
		require.NoError(t, s.Delete(t.Context(), binding))
		require.NoError(t, s.Delete(t.Context(), policy))
	})
}

func labelled(b *velerov1.Backup) { b.Labels = map[string]string{"refuse": "yes"} }

// TestAcceptHardening_Unwritable has Backups first in the queue that the API server refuses to write. The others run, a server
// that starts does so, too, and what was refused runs when it is changed or no longer refused.
func TestAcceptHardening_Unwritable(t *testing.T) {
	t.Parallel()
	s := newQueueSite(t, 1)
	stop := refuse(t, s)
	defer stop()
	s.Add(t, controllertest.NewBackup("a-bad", of("ns1"), labelled), controllertest.NewBackup("b-bad", of("ns1"), labelled))
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

	// A change by a user leads to another attempt at once, the end of the policy to one after a pause.
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

// TestAcceptHardening_BucketAway has backups whose location is not available. They wait, without holding up others, ask for its
// validation, and start when it is available. A backup whose location does not exist starts, in order to fail.
func TestAcceptHardening_BucketAway(t *testing.T) {
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
	s.Add(t, controllertest.NewLocation("near"), controllertest.NewLocation("far", func(l *velerov1.BackupStorageLocation) {
		l.Status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
	}))
	s.Add(t, controllertest.NewBackup("a-far", of("ns1")), controllertest.NewBackup("b-far", of("ns2"), in("far")))
	s.Add(t, controllertest.NewBackup("c-near", of("ns1"), in("near")), controllertest.NewBackup("d-nowhere", of("ns3"), in("nowhere")))
	metrics := s.restarted()
	s.shows("a-far Queued 1", "b-far Queued 2", "c-near ReadyToStart", "d-nowhere ReadyToStart")
	require.Equal(t, "far", <-asked)
	const why = "backup storage location far is Unavailable, and the backup starts when it is Available"
	require.Equal(t, reasonLocation+": "+why, s.says("a-far"))
	require.Equal(t, reasonLocation+": "+why, s.says("b-far"))
	require.Eventually(t, func() bool { return measured(t, metrics)["waiting "+reasonLocation] == 2 }, patience, 10*time.Millisecond)
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

// TestAcceptHardening_ManyQueued counts the writes of a long queue.
func TestAcceptHardening_ManyQueued(t *testing.T) {
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
	// When it is quiet between the starts, a start costs one write, and those of the first positions and of few others.
	before := m.line.writes.Load()
	for range admissions {
		next()
		require.NoError(t, m.rest())
	}
	quiet := m.line.writes.Load() - before
	t.Logf("%d writes for %d starts, each after a pause", quiet, admissions)
	require.LessOrEqual(t, quiet, int64(admissions*12))

	// Under load, positions are written only from time to time, here after the last start: less than three writes for each.
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

// Positions are written after a pause, or some time after the first became wrong, whatever the clock says.
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
	for after := time.Second; after < 4*time.Second; after += 100 * time.Millisecond { // events never cease
		event(after)
		require.Positive(t, b.pause(pace, true, at(after)))
	}
	event(4 * time.Second)
	require.Zero(t, b.pause(pace, true, at(4*time.Second)))
	b.clear()
	require.Equal(t, 300*time.Millisecond, b.pause(pace, true, at(4*time.Second)), "the next ones")
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
