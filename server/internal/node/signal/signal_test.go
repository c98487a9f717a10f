package signal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/node/signal"
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

// open opens a volume.
func open(t *testing.T, path ...string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(filepath.Join(path...))
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestWaitEndsWhenAllVolumesAreRestored(t *testing.T) {
	t.Parallel()
	root := volumes(t, "data", "wal")
	require.NoError(t, signal.Restored(open(t, root, "data"), "uid"))
	require.NoError(t, signal.Restored(open(t, root, "wal"), "an-earlier-one"))
	var told []string
	require.NoError(t, signal.Wait(t.Context(), root, "", "uid", func(text string) {
		told = append(told, text)
		require.NoError(t, signal.Restored(open(t, root, "wal"), "uid"))
	}))
	require.Equal(t, []string{"waits for the data of wal"}, told)
	require.NoFileExists(t, filepath.Join(root, "wal", ".velero", "an-earlier-one"))
}

func TestWaitAcceptsTheMarksOfVelero(t *testing.T) {
	t.Parallel()
	root, marked := volumes(t, "signals"), volumes(t, "data", "wal")
	require.NoError(t, signal.Restored(open(t, marked, "data"), "uid"))
	var told []string
	require.NoError(t, signal.Wait(t.Context(), root, marked, "uid", func(text string) {
		told = append(told, text)
		require.NoError(t, signal.Restored(open(t, marked, "wal"), "uid"))
	}))
	require.Equal(t, []string{"waits for the data of wal"}, told)
	require.NoError(t, signal.Restored(open(t, root, "signals"), "uid"))
	require.NoError(t, signal.Wait(t.Context(), root, filepath.Join(marked, "none"), "uid", nil),
		"the volumes are not needed")
}

func TestWaitEndsNotWithoutVolumes(t *testing.T) {
	t.Parallel()
	root := volumes(t)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, signal.Wait(ctx, root, volumes(t), "uid", func(string) { cancel() }), context.Canceled)
}

func TestWaitEndsWhenAVolumeIsNotRestored(t *testing.T) {
	t.Parallel()
	root := volumes(t, "data", "wal")
	err := signal.Wait(t.Context(), root, "", "uid", func(string) {
		require.NoError(t, signal.Failed(open(t, root, "wal"), "uid", "the data is lost"))
	})
	require.EqualError(t, err, "the data is lost; delete the pod, and restore it again")
	require.NoError(t, signal.Restored(open(t, root, "wal"), "uid"), "by another attempt")
	require.NoError(t, signal.Restored(open(t, root, "data"), "uid"))
	require.NoError(t, signal.Wait(t.Context(), root, "", "uid", nil))
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	root := volumes(t, "data")
	late := errors.New("it took too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := signal.Wait(ctx, root, "", "uid", func(string) { cancel(late) })
	require.ErrorIs(t, err, late)
	require.ErrorContains(t, err, "waits for the data of data")
}

func TestSignalIsAFileInTheVolume(t *testing.T) {
	t.Parallel()
	root := volumes(t, "data")
	for _, uid := range []string{"", "../x", "a/b"} {
		require.ErrorContains(t, signal.Restored(open(t, root), uid), "is not the UID of a Restore", uid)
		require.Error(t, signal.Failed(open(t, root), uid, "why"), uid)
	}
}

func TestRemoveLeavesWhatNoRestoreHasMarked(t *testing.T) {
	t.Parallel()
	root := volumes(t, "marked", "of-others", "linked")
	volume := func(name string) string { return filepath.Join(root, name) }
	require.NoError(t, signal.Restored(open(t, volume("marked")), "uid"))
	require.NoError(t, signal.Restored(open(t, volume("of-others")), "another"))
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "uid"), nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(volume("linked"), ".velero")))
	for _, name := range []string{"marked", "of-others", "linked"} {
		require.NoError(t, signal.Remove(open(t, volume(name)), "uid"))
	}
	require.NoDirExists(t, filepath.Join(volume("marked"), ".velero"))
	require.FileExists(t, filepath.Join(volume("of-others"), ".velero", "another"))
	require.FileExists(t, filepath.Join(outside, "uid"), "a link does not lead to files of the node")
	require.NoError(t, signal.Restored(open(t, volume("linked")), "uid"))
	require.FileExists(t, filepath.Join(volume("linked"), ".velero", "uid"))
	require.Error(t, signal.Remove(open(t, volume("marked")), "../uid"))
}

func TestMarkIsNoFileOfThePod(t *testing.T) {
	t.Parallel()
	root := volumes(t, "data")
	outside := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(outside, []byte("kept"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "data", "uid")))
	require.NoError(t, os.Symlink(".", filepath.Join(root, "data", ".velero")))
	require.NoError(t, signal.Failed(open(t, root, "data"), "uid", "why"))
	info, err := os.Lstat(filepath.Join(root, "data", ".velero"))
	require.NoError(t, err)
	require.True(t, info.IsDir())
	content, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "kept", string(content))
}

func TestWaitFollowsNoLinkOutOfAVolume(t *testing.T) {
	t.Parallel()
	root, outside := volumes(t, "data"), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "uid.failed"), []byte("token"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "data", ".velero")))
	err := signal.Wait(t.Context(), root, "", "uid", nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "token")
}
