package hostpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/nodeagent/hostpath"
)

func TestVolumesAreFoundWhereTheKubeletMountsThem(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{
		"p1/volumes/kubernetes.io~csi/pvc-1/mount", "p1/volumes/kubernetes.io~empty-dir/cache", "p1/volumes/kubernetes.io~csi/unstaged",
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
		require.Equal(t, want, got)
	}
	all, err := hostpath.Directories(root, "p1")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		filepath.Join(root, "p1/volumes/kubernetes.io~csi/pvc-1/mount"), filepath.Join(root, "p1/volumes/kubernetes.io~nfs/pvc-2"), filepath.Join(root, "p1/volumes/kubernetes.io~empty-dir/cache"),
	}, all)
	all, err = hostpath.Directories(root, "p2")
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = hostpath.Directories(root, "..")
	require.ErrorContains(t, err, "is not the name of a directory")
	for _, missing := range []string{"pvc-3", "unstaged"} {
		_, err := hostpath.Find(root, "p1", missing)
		require.ErrorIs(t, err, hostpath.ErrNotMounted)
	}
	_, err = hostpath.Find(root, "p2", "cache")
	require.ErrorIs(t, err, hostpath.ErrNotMounted)
	_, err = hostpath.Find(root, "p1", "link")
	require.ErrorContains(t, err, "is no directory")
	for _, name := range []string{"", "..", "../p1", "a/b"} {
		_, err = hostpath.Find(root, "p1", name)
		require.ErrorContains(t, err, "is not the name of a directory")
	}
	_, err = hostpath.Find(filepath.Join(root, "away"), "p1", "cache")
	require.ErrorContains(t, err, "mount the kubelet's directory of pods")
}
