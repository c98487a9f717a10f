package kopia

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	kopiafs "github.com/kopia/kopia/fs"
	"github.com/kopia/kopia/snapshot"
	"github.com/stretchr/testify/require"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/volume"
)

func TestFilesThatVanishAreWarningsAndOthersFailTheBackup(t *testing.T) {
	t.Parallel()
	b := &backup{session: &session{}, input: &dmv1.BackupInput{}}
	b.Error("./a", &os.PathError{Op: "open", Path: "a", Err: syscall.ENOENT}, false)
	b.Error("./b/c", &os.PathError{Op: "open", Path: "c", Err: syscall.ELOOP}, false)
	require.NoError(t, b.accept(&snapshot.Manifest{}))
	require.Equal(t, []string{`2 deleted while the volume was read, and not in the snapshot: "a", "b/c"`},
		b.losses.Warnings())
	for range 5 {
		b.Error("./d", &os.PathError{Op: "read", Path: "d", Err: syscall.EIO}, false)
	}
	require.ErrorContains(t, b.accept(&snapshot.Manifest{}), `volume: 5 files could not be read: "d": read d: `)
}

func TestFilesThatChangeBetweenListingAndReading(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"gone", "link", "fifo", "directory"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("content"), 0o600))
	}
	root, err := volume.Source(dir, volume.Options{Losses: &volume.Losses{}})
	require.NoError(t, err)
	entries, err := kopiafs.GetAllEntries(t.Context(), root)
	require.NoError(t, err)
	require.Len(t, entries, 4)
	for _, entry := range entries {
		require.NoError(t, os.Remove(filepath.Join(dir, entry.Name())))
	}
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	for _, entry := range entries {
		_, err := entry.(kopiafs.File).Open(t.Context())
		require.True(t, errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP), "%s: %v", entry.Name(), err)
	}
}

func TestSourcesHaveThePathsOfVelero(t *testing.T) {
	t.Parallel()
	for want, source := range map[string]dmv1.Source{
		"snapshot-pod-volume/kopia/shop/web-0/claim": {Requester: dmv1.PodVolume, Namespace: "shop", Pod: "web-0",
			Volume: "data", Claim: "claim"},
		"snapshot-pod-volume/kopia/shop/web-0/data": {Requester: dmv1.PodVolume, Namespace: "shop", Pod: "web-0",
			Volume: "data"},
		"snapshot-data-upload-download/kopia/shop/claim": {Requester: dmv1.DataUpload, Namespace: "shop", Claim: "claim"},
		"unknown-source/kopia":                           {},
	} {
		require.Equal(t, want, pathOf(source))
	}
}
