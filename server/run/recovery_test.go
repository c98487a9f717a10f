package run_test

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/controllertest"
	"github.com/cleat-dev/cleat/server/run"
)

func TestRecoveryFailsWhatAFormerServerLeftInProgress(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	phases := run.AllBackupPhases()
	for i, phase := range phases {
		c.Add(t, controllertest.NewBackup("b-"+string(rune('a'+i)), controllertest.InPhase(phase)))
	}
	c.Add(t,
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "running"}, Status: velerov1.RestoreStatus{Phase: velerov1.RestorePhaseInProgress}},
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "waiting"}},
	)
	r := run.Recovery{Cluster: c.Cluster, Log: hclog.NewNullLogger(), Now: controllertest.Noon}
	require.NoError(t, r.Run(t.Context()))

	for i, phase := range phases {
		b := c.Backup(t, "b-"+string(rune('a'+i)))
		if phase != velerov1.BackupPhaseInProgress {
			require.Equal(t, phase, b.Status.Phase, "the other phases are continued by their controllers")
			require.False(t, run.HasPartialData(b))
			continue
		}
		require.Equal(t, velerov1.BackupPhaseFailed, b.Status.Phase)
		require.Equal(t, `found a backup with status "InProgress" during the server starting, mark it as "Failed"`, b.Status.FailureReason)
		require.Equal(t, controllertest.Noon().Unix(), b.Status.CompletionTimestamp.Unix())
		require.True(t, run.HasPartialData(b), "its files have yet to be deleted")
	}
	var running, waiting velerov1.Restore
	require.NoError(t, c.Get(t.Context(), c.Request("running").NamespacedName, &running))
	require.Equal(t, velerov1.RestorePhaseFailed, running.Status.Phase)
	require.Equal(t, `found a restore with status "InProgress" during the server starting, mark it as "Failed"`, running.Status.FailureReason)
	require.NoError(t, c.Get(t.Context(), c.Request("waiting").NamespacedName, &waiting))
	require.Empty(t, waiting.Status.Phase)
}
