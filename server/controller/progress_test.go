package controller

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestProgressIsShownAndKeptUpToDate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	b := newBackup("b", inPhase(velerov1.BackupPhaseInProgress))
	c.Add(t, b)
	p := follow(t.Context(), c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(), func() { t.Error("it is not gone") })
	p.set(3, 10)
	var there velerov1.Backup
	require.Eventually(t, func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(b), &there) == nil && there.Status.Progress != nil
	}, 30e9, 50e6)
	newest := p.end()
	require.Equal(t, velerov1.BackupProgress{TotalItems: 10, ItemsBackedUp: 3}, *there.Status.Progress)
	require.Equal(t, velerov1.BackupPhaseInProgress, there.Status.Phase)
	require.Equal(t, there.ResourceVersion, newest.ResourceVersion, "so that the next write of the phase meets no conflict")
}

func TestProgressNoticesThatItsObjectIsGone(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, nil)
			b := newBackup("b", inPhase(velerov1.BackupPhaseInProgress))
			c.Add(t, b)
			require.NoError(t, c.Delete(t.Context(), b.DeepCopy()))
			if replace {
				c.Add(t, newBackup("b"))
			}
			gone := make(chan struct{})
			p := follow(t.Context(), c.Cluster, b, "itemsBackedUp", hclog.NewNullLogger(), func() { close(gone) })
			p.set(1, 2)
			<-gone
			p.end()
			var there velerov1.Backup
			err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &there)
			if replace {
				require.NoError(t, err)
				require.Nil(t, there.Status.Progress, "another backup of that name is not touched")
			}
		})
	}
}
