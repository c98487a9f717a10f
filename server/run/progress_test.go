package run_test

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/controllertest"
	"github.com/cleat-dev/cleat/server/run"
)

func TestProgressIsWritten(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
	c.Add(t, b)
	p := run.Follow(t.Context(), c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(), func() { t.Error("the backup was not deleted") })
	p.Set(3, 10)
	var there velerov1.Backup
	require.Eventually(t, func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(b), &there) == nil && there.Status.Progress != nil
	}, 30e9, 50e6)
	newest := p.End()
	require.Equal(t, velerov1.BackupProgress{TotalItems: 10, ItemsBackedUp: 3}, *there.Status.Progress)
	require.Equal(t, velerov1.BackupPhaseInProgress, there.Status.Phase)
	require.Equal(t, there.ResourceVersion, newest.ResourceVersion, "so that the next write of the phase meets no conflict")
}

func TestProgressReportsADeletedObject(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := controllertest.NewCluster(t, nil)
			b := controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseInProgress))
			c.Add(t, b)
			require.NoError(t, c.Delete(t.Context(), b.DeepCopy()))
			if replace {
				c.Add(t, controllertest.NewBackup("b"))
			}
			deleted := make(chan struct{})
			p := run.Follow(t.Context(), c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(), func() { close(deleted) })
			p.Set(1, 2)
			<-deleted
			p.End()
			var there velerov1.Backup
			err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &there)
			if replace {
				require.NoError(t, err)
				require.Nil(t, there.Status.Progress, "another backup of that name is not touched")
			}
		})
	}
}
