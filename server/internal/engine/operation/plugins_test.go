package operation_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

func TestCurrentPluginIsAsked(t *testing.T) {
	t.Parallel()
	const mover = "example.io/mover"
	built, err := programs.Link("server/internal/host/pluginhost/testdata/mover")
	require.NoError(t, err)
	dir := t.TempDir()
	binary := filepath.Join(dir, "mover")
	require.NoError(t, programs.CopyFile(built, binary))
	host, err := pluginhost.New(t.Context(), pluginhost.Config{
		Dir: dir, Log: hclog.NewNullLogger(), Rescan: -1,
		Environment: []string{"CLEAT_TEST_JOURNAL=" + filepath.Join(t.TempDir(), "journal"), "XDG_STATE_HOME=" + t.TempDir(),
			"HOME=" + t.TempDir()},
	})
	require.NoError(t, err)
	t.Cleanup(host.Close)

	backup := nightly()
	backup.JSON = []byte(`{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"namespace":"velero","name":"nightly","uid":"u-1"}}`)
	restore := &operation.Owner{Kind: operation.OfRestore, Namespace: "velero", Name: "again", UID: "u-2"}
	restore.JSON = []byte(`{"apiVersion":"velero.io/v1","kind":"Restore","metadata":{"namespace":"velero","name":"again","uid":"u-2"}}`)
	item := startOf("db").Sent
	saver, err := pluginhost.Named(host, kinds.AsyncBackupItemAction(), mover)
	require.NoError(t, err)
	saved, err := saver.Execute(t.Context(), item, backup.JSON)
	require.NoError(t, err)
	restorer, err := pluginhost.Named(host, kinds.AsyncRestoreItemAction(), mover)
	require.NoError(t, err)
	restored, err := restorer.Execute(t.Context(), restoreitemaction.Input{Item: item, ItemFromBackup: item,
		Restore: restore.JSON})
	require.NoError(t, err)

	plugins := operation.NewPlugins(host, nil)
	m := run(t, plugins, operation.Options{})
	for _, started := range []struct {
		owner *operation.Owner
		id    string
	}{{backup, saved.OperationID}, {restore, restored.OperationID}} {
		g := m.Follow(started.owner, []operation.Operation{{
			Action: mover, ID: started.id, Item: pvc("db"), Created: time.Now(), Status: operation.Status{Phase: operation.New},
		}}, 0)
		<-g.Done()
		o := only(g)
		require.Equal(t, operation.Completed, o.Phase, o.Error)
		require.EqualValues(t, 3, o.NCompleted)
		require.Equal(t, "blocks", o.Units)
	}

	require.ErrorIs(t, plugins.Cancel(t.Context(), backup, mover, saved.OperationID), versioning.ErrNotCancelled)
	require.NoError(t, plugins.Cancel(t.Context(), restore, mover, restored.OperationID))
	_, err = plugins.Progress(t.Context(), backup, "example.io/other", saved.OperationID)
	require.ErrorContains(t, err, "example.io/other")
	require.NotErrorIs(t, err, versioning.ErrNotFound, "the plugin may come back")

	require.NoError(t, os.Remove(binary))
	require.NoError(t, host.Rescan(t.Context()))
	_, err = plugins.Progress(t.Context(), backup, mover, saved.OperationID)
	require.ErrorContains(t, err, mover)
	require.ErrorContains(t, plugins.Cancel(t.Context(), backup, mover, saved.OperationID), mover)
	require.NoError(t, programs.CopyFile(built, binary))
	require.NoError(t, host.Rescan(t.Context()))
	p, err := plugins.Progress(t.Context(), backup, mover, saved.OperationID)
	require.NoError(t, err)
	require.True(t, p.Completed)
}
