package queue_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestRestoresHaveOwnLimit has a backup that holds the only slot of the queue, and a long restore: neither delays
// another restore, and the backup of the long restore cannot be deleted meanwhile.
func TestRestoresHaveOwnLimit(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(3)
	s.Serve("--concurrent-backups", "1", "--concurrent-restores", "2")
	s.Available()
	s.WholeBackup("")

	s.InTheMiddle(g, "slow")
	s.BeginRestore("beside-a-backup")
	s.CheckRestore("beside-a-backup")
	s.AwaitBackup("slow", velerov1.BackupPhaseInProgress)
	g.Disarm()
	s.Eventually("the backup has ended", func(ctx context.Context) (bool, error) { return s.Done(ctx, "slow", "backup") })

	hit := g.Arm(1, site.Before, func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/restores/long/")
	})
	s.BeginRestore("long")
	select {
	case <-hit:
	case <-t.Context().Done():
		require.Fail(t, "the restore has not come to its end")
	}
	s.BeginRestore("beside-a-restore")
	s.CheckRestore("beside-a-restore")
	_, errs, err := s.Run("backup", "delete", "whole", "--confirm", "--wait")
	require.Error(t, err)
	require.Contains(t, errs, "restore long from this backup is InProgress; delete the backup when it has ended, or "+
		"delete the restore first")
	require.Contains(t, s.Files("backups/whole"), "whole.tar.gz")

	g.Disarm()
	s.Eventually("the restore has ended",
		func(ctx context.Context) (bool, error) { return s.Done(ctx, "long", "restore") })
	s.Must("backup", "delete", "whole", "--confirm", "--wait")
	require.Empty(t, s.Files("backups/whole"))
	for _, name := range []string{"long", "beside-a-backup", "beside-a-restore"} {
		require.Empty(t, s.Files("restores/"+name))
		err := s.Client.Get(t.Context(), s.Key(name), &velerov1.Restore{})
		require.True(t, apierrors.IsNotFound(err))
	}
}
