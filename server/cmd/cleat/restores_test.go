package main_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestRestoresHaveOwnLimit has a backup that holds the only slot of the queue, and a long restore: neither delays
// another restore, and the backup of the long restore cannot be deleted meanwhile.
func TestRestoresHaveOwnLimit(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	s.shop = s.workload(3)
	s.serve("--concurrent-backups", "1", "--concurrent-restores", "2")
	s.available()
	s.wholeBackup("")

	s.inTheMiddle(g, "slow")
	s.beginRestore("beside-a-backup")
	s.checkRestore("beside-a-backup")
	s.awaitBackup("slow", velerov1.BackupPhaseInProgress)
	g.disarm()
	s.eventually("the backup has ended", func(ctx context.Context) (bool, error) { return s.done(ctx, "slow", "backup") })

	hit := g.arm(1, before, func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/restores/long/")
	})
	s.beginRestore("long")
	select {
	case <-hit:
	case <-t.Context().Done():
		require.Fail(t, "the restore has not come to its end")
	}
	s.beginRestore("beside-a-restore")
	s.checkRestore("beside-a-restore")
	_, errs, err := s.run("backup", "delete", "whole", "--confirm", "--wait")
	require.Error(t, err)
	require.Contains(t, errs, "restore long from this backup is InProgress; delete the backup when it has ended, or "+
		"delete the restore first")
	require.Contains(t, s.files("backups/whole"), "whole.tar.gz")

	g.disarm()
	s.eventually("the restore has ended",
		func(ctx context.Context) (bool, error) { return s.done(ctx, "long", "restore") })
	s.must("backup", "delete", "whole", "--confirm", "--wait")
	require.Empty(t, s.files("backups/whole"))
	for _, name := range []string{"long", "beside-a-backup", "beside-a-restore"} {
		require.Empty(t, s.files("restores/"+name))
		err := s.client.Get(t.Context(), s.key(name), &velerov1.Restore{})
		require.True(t, apierrors.IsNotFound(err))
	}
}
