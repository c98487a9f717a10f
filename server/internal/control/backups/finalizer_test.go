package backups

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

func TestFinalizerEndsABackupWithoutLocation(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	in := func(phase velerov1.BackupPhase) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "gone", phase
			b.Status.CompletionTimestamp = run.Timestamp(controllertest.Noon().Add(-time.Hour))
			if phase == velerov1.BackupPhaseFailed {
				run.MarkPartialData(b)
			}
		}
	}
	c.Add(t, controllertest.NewBackup("good", in(velerov1.BackupPhaseFinalizing)),
		controllertest.NewBackup("bad", in(velerov1.BackupPhaseFailed)))
	r := &Finalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{},
		Logs: &run.Logs{Server: hclog.NewNullLogger(), Now: controllertest.Noon}, Log: hclog.NewNullLogger(),
		Now: controllertest.Noon}
	for _, name := range []string{"good", "bad"} {
		_, err := r.Reconcile(t.Context(), c.Request(name))
		require.NoError(t, err)
	}
	good := c.Backup(t, "good")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, good.Status.Phase)
	require.Contains(t, good.Status.FailureReason, "finalize the backup: the backup storage location does not exist: ")
	require.Equal(t, run.Timestamp(controllertest.Noon().Add(-time.Hour)).UTC(), good.Status.CompletionTimestamp.UTC(),
		"each attempt writes the same")
	require.False(t, run.HasPartialData(c.Backup(t, "bad")))
}

func TestFinalizerTriesAFailingStoreAgain(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"), controllertest.NewBackup("b", func(b *velerov1.Backup) {
		b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseFinalizing
	}))
	now := controllertest.Noon()
	r := &Finalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{},
		Logs: &run.Logs{Server: hclog.NewNullLogger(), Now: controllertest.Noon}, Log: hclog.NewNullLogger(),
		Now: func() time.Time { return now }}
	for range 3 { // however long it lasts
		_, err := r.Reconcile(t.Context(), c.Request("b"))
		require.ErrorContains(t, err, "the bucket is on fire")
		b := c.Backup(t, "b")
		require.Equal(t, velerov1.BackupPhaseFinalizing, b.Status.Phase)
		waits, err := velerov1.WaitsOf(b)
		require.NoError(t, err)
		require.Equal(t, "the object store to answer", waits.Oldest[0].For)
		require.Contains(t, waits.Oldest[0].Because, "the bucket is on fire")
		require.Equal(t, run.Timestamp(controllertest.Noon()).UTC(), waits.Oldest[0].Since.UTC(), "of the first failure")
		now = now.Add(time.Hour)
	}
}

// The files of a backup that is deleted before it was finalized are deleted as soon as the store works. A backup that
// may have been finalized keeps them.
func TestFinalizerDeletesTheFilesOfADeletedBackup(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"))
	for name, tt := range map[string]struct {
		phase   velerov1.BackupPhase
		partial bool
		unknown bool // the state at the deletion
		deletes bool
	}{
		"finalizing":         {phase: velerov1.BackupPhaseFinalizing, deletes: true},
		"partially":          {phase: velerov1.BackupPhaseFinalizingPartiallyFailed, deletes: true},
		"failed-and-dirty":   {phase: velerov1.BackupPhaseFailed, partial: true, deletes: true},
		"failed":             {phase: velerov1.BackupPhaseFailed},
		"completed":          {phase: velerov1.BackupPhaseCompleted},
		"finalizing-at-last": {phase: velerov1.BackupPhaseFinalizing, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Finalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{},
				Logs: &run.Logs{Server: hclog.NewNullLogger(), Now: controllertest.Noon}, Log: hclog.NewNullLogger(),
				Now: controllertest.Noon}
			b := controllertest.NewBackup(name, controllertest.InPhase(tt.phase), func(b *velerov1.Backup) {
				b.Namespace, b.Spec.StorageLocation = c.Namespace, "default"
				if tt.partial {
					run.MarkPartialData(b)
				}
			})
			requested := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			defer requested.ShutDown()
			r.OnDelete().Delete(t.Context(), event.DeleteEvent{Object: b, DeleteStateUnknown: tt.unknown}, requested)
			for range 2 {
				_, err := r.Reconcile(t.Context(), c.Request(name))
				if !tt.deletes {
					require.NoError(t, err)
					require.Zero(t, requested.Len())
					continue
				}
				require.ErrorContains(t, err, "the bucket is on fire")
				require.Equal(t, 1, requested.Len())
			}
			b.Spec.StorageLocation = "none" // deleted, too
			_, err := r.Reconcile(t.Context(), c.Request(name))
			require.NoError(t, err)
		})
	}
}
