package backupqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// writes counts the writes of the queue.
type writes struct {
	client.Client
	count atomic.Int64
}

func (w *writes) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	w.count.Add(1)
	return w.Client.Patch(ctx, o, patch, opts...)
}

// A policy that changes the order in every decision is called only after events. The writes that it causes do not keep
// the server busy.
func TestUnstablePolicyIsAskedOnlyAfterChanges(t *testing.T) {
	t.Parallel()
	s := newQueueSite(t, 1)
	var asked atomic.Int64
	var written writes
	s.wrap = func(c *run.Cluster) *run.Cluster {
		written.Client = c.Client
		return &run.Cluster{Client: &written, Live: c.Live, Namespace: c.Namespace}
	}
	s.admission = alone{decides(func(_ context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision,
		error) {
		decision := &queueadmission.Decision{}
		for i := range snapshot.Queued {
			decision.Waiting = append(decision.Waiting, queueadmission.Waiting{Name: snapshot.Queued[i].Name, Reason: "Closed",
				Message: "nobody starts"})
		}
		if len(snapshot.Queued) == 4 {
			slices.Reverse(decision.Waiting)
			asked.Add(1)
		}
		return decision, nil
	})}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.Add(t, controllertest.NewBackup(name, of("n-"+name)))
	}
	s.start()
	order := func() (names []string) {
		backups := s.backups()
		for _, b := range backups {
			names = append(names, b.Name)
		}
		slices.SortFunc(names, func(a, b string) int {
			return backups[a].Status.QueuePosition - backups[b].Status.QueuePosition
		})
		return names
	}
	settled := func() bool {
		positions := map[int]bool{}
		for _, b := range s.backups() {
			positions[b.Status.QueuePosition] = b.Status.Phase == velerov1.BackupPhaseQueued
		}
		return len(positions) == 4 && !positions[0] && positions[4]
	}
	require.Eventually(t, settled, patience, 5*time.Millisecond)
	for range 5 {
		before, times := order(), asked.Load()
		s.wakes <- event.GenericEvent{}
		require.Eventually(t, func() bool { return asked.Load() > times && settled() && !slices.Equal(order(), before) },
			patience, 5*time.Millisecond)
	}
	// Each decision moves all four backups, unless the next decision interrupts it.
	require.LessOrEqual(t, written.count.Load(), 4*asked.Load())
	require.LessOrEqual(t, asked.Load(), int64(20), "far fewer than if its own writes woke the queue")
}

// TestPolicyGivesPriorityByLabelsOfNamespaces has a policy admit the backups of namespaces with a label, also of those
// that get it while their backup waits.
func TestPolicyGivesPriorityByLabelsOfNamespaces(t *testing.T) {
	t.Parallel()
	s := newQueueSite(t, 2)
	const priority = "example.io/priority"
	s.admission = alone{decides(func(_ context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision,
		error) {
		decision := &queueadmission.Decision{}
		for _, b := range snapshot.Queued {
			if len(b.Namespaces) == 1 && snapshot.NamespaceLabels[b.Namespaces[0]][priority] == "high" {
				decision.Admit = append(decision.Admit, b.Name)
				continue
			}
			decision.Waiting = append(decision.Waiting, queueadmission.Waiting{Name: b.Name, Reason: "Priority",
				Message: "its namespace has no priority"})
		}
		return decision, nil
	})}
	first, later := s.Namespace+"-first", s.Namespace+"-later"
	for _, name := range []string{first, later} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: ofLife(s.Namespace)}}
		if name == first {
			namespace.Labels[priority] = "high"
		}
		require.NoError(t, s.Create(t.Context(), namespace))
		s.Add(t, controllertest.NewBackup(name, of(name)))
	}
	s.start()
	phase := func(name string) velerov1.BackupPhase { return s.backups()[name].Status.Phase }
	require.Eventually(t, func() bool {
		return phase(first) == velerov1.BackupPhaseReadyToStart && phase(later) == velerov1.BackupPhaseQueued
	}, patience, 5*time.Millisecond)
	require.NoError(t, s.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+priority+`":"high"}}}`))))
	require.Eventually(t, func() bool { return phase(later) == velerov1.BackupPhaseReadyToStart }, patience,
		5*time.Millisecond)
}

func TestFailureTextStaysUntilSomethingChanges(t *testing.T) {
	t.Parallel()
	var f failure
	attempt := func(i int) error { return fmt.Errorf("the calendar cannot be reached,\nattempt %d", i) }
	require.Empty(t, f.describe(nil, 1))
	require.Equal(t, "the calendar cannot be reached, attempt 1", f.describe(attempt(1), 1))
	require.Equal(t, "the calendar cannot be reached, attempt 1", f.describe(attempt(2), 1))
	require.Equal(t, "the calendar cannot be reached, attempt 3", f.describe(attempt(3), 2), "there was an event")
	require.Empty(t, f.describe(nil, 2))
	died := fmt.Errorf("held: %w", &calls.DiedError{Plugin: "a.b/c", Command: "/p", During: "Decide",
		ExitStatus: "exit status 3", Stderr: []string{"password hunter2"}})
	require.ErrorContains(t, died, "hunter2", "for the log")
	require.Equal(t, "held: plugin a.b/c (/p) died during Decide: exit status 3; the log of the server has its stderr",
		f.describe(died, 2))
	require.Empty(t, f.describe(nil, 2))
	require.Equal(t, "it is gone", f.describe(errors.New("it is gone"), 2))
}
