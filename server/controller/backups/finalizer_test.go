package backups

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/controllertest"
	"github.com/cleat-dev/cleat/server/run"
)

func TestFinalizerEndsABackupWithoutLocation(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	in := func(phase velerov1.BackupPhase) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "gone", phase
			if phase == velerov1.BackupPhaseFailed {
				run.MarkPartialData(b)
			}
		}
	}
	c.Add(t, controllertest.NewBackup("good", in(velerov1.BackupPhaseFinalizing)), controllertest.NewBackup("bad", in(velerov1.BackupPhaseFailed)))
	r := &Finalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: controllertest.Noon}
	for _, name := range []string{"good", "bad"} {
		_, err := r.Reconcile(t.Context(), c.Request(name))
		require.NoError(t, err)
	}
	good := c.Backup(t, "good")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, good.Status.Phase)
	require.Contains(t, good.Status.FailureReason, "finalize the backup: the backup storage location does not exist: ")
	require.NotNil(t, good.Status.CompletionTimestamp)
	require.False(t, run.HasPartialData(c.Backup(t, "bad")))
}

func TestFinalizerTriesAFailingStoreAgain(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"), controllertest.NewBackup("b", func(b *velerov1.Backup) {
		b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseFinalizing
	}))
	r := &Finalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: controllertest.Noon}
	_, err := r.Reconcile(t.Context(), c.Request("b"))
	require.ErrorContains(t, err, "the bucket is on fire")
	require.Equal(t, velerov1.BackupPhaseFinalizing, c.Backup(t, "b").Status.Phase)
}
