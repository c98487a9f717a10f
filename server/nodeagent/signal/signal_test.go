package signal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/nodeagent/signal"
)

func volumes(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		require.NoError(t, os.Mkdir(filepath.Join(root, name), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "no-volume"), nil, 0o600))
	return root
}

func TestWaitEndsWhenAllVolumesAreRestored(t *testing.T) {
	t.Parallel()
	root := volumes(t, "data", "wal")
	require.NoError(t, signal.Restored(filepath.Join(root, "data"), "uid"))
	require.NoError(t, signal.Restored(filepath.Join(root, "wal"), "an-earlier-one"))
	var told []string
	require.NoError(t, signal.Wait(t.Context(), root, "uid", func(text string) {
		told = append(told, text)
		require.NoError(t, signal.Restored(filepath.Join(root, "wal"), "uid"))
	}))
	require.Equal(t, []string{"waits for the data of wal"}, told)
	require.NoFileExists(t, filepath.Join(root, "wal", ".velero", "an-earlier-one"))
	require.NoError(t, signal.Clean(root))
	require.NoDirExists(t, filepath.Join(root, "data", ".velero"))
	require.NoDirExists(t, filepath.Join(root, "wal", ".velero"))
}

func TestWaitEndsWhenAVolumeIsNotRestored(t *testing.T) {
	t.Parallel()
	root := volumes(t, "data", "wal")
	err := signal.Wait(t.Context(), root, "uid", func(string) {
		require.NoError(t, signal.Failed(filepath.Join(root, "wal"), "uid", "no such snapshot"))
	})
	require.EqualError(t, err, "the data of volume wal was not restored: no such snapshot; delete the pod, and restore it again")
	require.NoError(t, signal.Restored(filepath.Join(root, "wal"), "uid"), "by another attempt")
	require.NoError(t, signal.Restored(filepath.Join(root, "data"), "uid"))
	require.NoError(t, signal.Wait(t.Context(), root, "uid", nil))
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	root := volumes(t, "data")
	late := errors.New("it took too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := signal.Wait(ctx, root, "uid", func(string) { cancel(late) })
	require.ErrorIs(t, err, late)
	require.ErrorContains(t, err, "waits for the data of data")
}

func TestSignalIsAFileInTheVolume(t *testing.T) {
	t.Parallel()
	root := volumes(t, "data")
	for _, uid := range []string{"", "../x", "a/b"} {
		require.ErrorContains(t, signal.Restored(root, uid), "is not the UID of a Restore", uid)
		require.Error(t, signal.Failed(root, uid, "why"), uid)
	}
}

func TestRemoveLeavesWhatNoRestoreHasMarked(t *testing.T) {
	t.Parallel()
	root := volumes(t, "marked", "of-others", "linked")
	volume := func(name string) string { return filepath.Join(root, name) }
	require.NoError(t, signal.Restored(volume("marked"), "uid"))
	require.NoError(t, signal.Restored(volume("of-others"), "another"))
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "uid"), nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(volume("linked"), ".velero")))
	for _, name := range []string{"marked", "of-others", "linked"} {
		require.NoError(t, signal.Remove(volume(name), "uid"))
	}
	require.NoDirExists(t, filepath.Join(volume("marked"), ".velero"))
	require.FileExists(t, filepath.Join(volume("of-others"), ".velero", "another"))
	require.FileExists(t, filepath.Join(outside, "uid"), "a link does not lead to files of the node")
	require.NoError(t, signal.Restored(volume("linked"), "uid"))
	require.FileExists(t, filepath.Join(volume("linked"), ".velero", "uid"))
	require.Error(t, signal.Remove(volume("marked"), "../uid"))
}
