package hostpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
)

func TestVolumesAreFoundWhereTheKubeletMountsThem(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{
		"p1/volumes/kubernetes.io~csi/pvc-1/mount", "p1/volumes/kubernetes.io~empty-dir/cache",
		"p1/volumes/kubernetes.io~csi/unstaged",
		"p1/volumes/kubernetes.io~nfs/pvc-2", "p1/volumeDevices/kubernetes.io~csi",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(root, "p1/volumeDevices/kubernetes.io~csi/raw")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(root, "p1/volumes/kubernetes.io~nfs/link")))
	for name, want := range map[string]hostpath.Volume{
		"pvc-1": {Path: filepath.Join(root, "p1/volumes/kubernetes.io~csi/pvc-1/mount")},
		"pvc-2": {Path: filepath.Join(root, "p1/volumes/kubernetes.io~nfs/pvc-2")},
		"cache": {Path: filepath.Join(root, "p1/volumes/kubernetes.io~empty-dir/cache")},
		"raw":   {Path: filepath.Join(root, "p1/volumeDevices/kubernetes.io~csi/raw"), Block: true},
	} {
		got, err := hostpath.Find(root, "p1", name)
		require.NoError(t, err, name)
		require.NoError(t, got.Close())
		got.File = nil
		require.Equal(t, want, got)
	}
	directories := func(pod string) []string {
		var paths []string
		all, err := hostpath.Directories(root, pod)
		require.NoError(t, err)
		for _, volume := range all {
			paths = append(paths, volume.Path)
			require.NoError(t, volume.Close())
		}
		return paths
	}
	require.ElementsMatch(t, []string{
		filepath.Join(root, "p1/volumes/kubernetes.io~csi/pvc-1/mount"), filepath.Join(root,
			"p1/volumes/kubernetes.io~nfs/pvc-2"), filepath.Join(root, "p1/volumes/kubernetes.io~empty-dir/cache"),
	}, directories("p1"))
	require.Empty(t, directories("p2"))
	_, err := hostpath.Directories(root, "..")
	require.ErrorContains(t, err, "is not the name of a directory")
	for _, missing := range []string{"pvc-3", "unstaged"} {
		_, err := hostpath.Find(root, "p1", missing)
		require.ErrorIs(t, err, hostpath.ErrNotMounted)
	}
	_, err = hostpath.Find(root, "p2", "cache")
	require.ErrorIs(t, err, hostpath.ErrNotMounted)
	_, err = hostpath.Find(root, "p1", "link")
	require.ErrorContains(t, err, "is not a directory")
	for _, name := range []string{"", "..", "../p1", "a/b"} {
		_, err = hostpath.Find(root, "p1", name)
		require.ErrorContains(t, err, "is not the name of a directory")
	}
	_, err = hostpath.Find(filepath.Join(root, "away"), "p1", "cache")
	require.ErrorContains(t, err, "mount the kubelet's directory of pods")
}

func TestOpenVolumeStaysTheSame(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	at := filepath.Join(root, "p1/volumes/kubernetes.io~empty-dir/data")
	require.NoError(t, os.MkdirAll(at, 0o755))
	volume, err := hostpath.Find(root, "p1", "data")
	require.NoError(t, err)
	t.Cleanup(func() { _ = volume.Close() })
	require.NoError(t, os.Rename(at, at+"-moved"))
	require.NoError(t, os.Symlink(outside, at))
	below, err := volume.Root()
	require.NoError(t, err)
	t.Cleanup(func() { _ = below.Close() })
	require.NoError(t, below.WriteFile("mark", nil, 0o600))
	require.FileExists(t, filepath.Join(at+"-moved", "mark"))
	require.NoFileExists(t, filepath.Join(outside, "mark"))
}

func TestLinksLeadToNoVolume(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "kubernetes.io~empty-dir/data"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "p1"), 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "p1/volumes")))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "p2/volumes"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(outside, "kubernetes.io~empty-dir"),
		filepath.Join(root, "p2/volumes/kubernetes.io~empty-dir")))
	for _, pod := range []string{"p1", "p2"} {
		_, err := hostpath.Find(root, pod, "data")
		require.Error(t, err, pod)
		found, _ := hostpath.Directories(root, pod)
		require.Empty(t, found, pod)
	}
}
