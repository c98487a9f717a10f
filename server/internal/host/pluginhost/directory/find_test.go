package directory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindWalksInOrderAndExplainsOmissions(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write := func(path string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("x"), mode))
	}
	write(filepath.Join(dir, "b"), 0o755)
	write(filepath.Join(dir, "a", "z"), 0o755)
	write(filepath.Join(dir, "a", "b", "c"), 0o100)
	write(filepath.Join(dir, "a.txt"), 0o644)
	write(filepath.Join(dir, "windows.exe"), 0o644)
	write(filepath.Join(outside, "linked"), 0o755)
	write(filepath.Join(outside, "folder", "deep"), 0o755)
	for from, to := range map[string]string{
		"link": filepath.Join(outside, "linked"), "folder": filepath.Join(outside, "folder"),
		"round": dir, "again": filepath.Join(dir, "a", "z"), "broken": "nowhere",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, from)))
	}
	for _, name := range []string{".hidden", "plugin.tmp", "plugin.part", ".plugin.swp", "plugin~", ".cache/plugin",
		"plugins.lock"} {
		write(filepath.Join(dir, name), 0o755)
	}
	seen, err := find(dir)
	require.NoError(t, err)
	var paths []string
	for _, file := range seen.files {
		paths = append(paths, strings.TrimPrefix(file.Path, dir+"/"))
	}
	require.Equal(t, []string{"a/b/c", "a/z", "b", "folder/deep", "link", "windows.exe"}, paths)
	require.Equal(t, map[string]string{
		filepath.Join(dir, "a.txt"): "it is not executable, its mode is -rw-r--r--",
		filepath.Join(dir, "again"): "it is the same file as " + filepath.Join(dir, "a", "z"),
		filepath.Join(dir, "round"): "it is the same file as " + dir,
		filepath.Join(dir, "broken"): "follow the link: lstat " + filepath.Join(dir, "nowhere") +
			": no such file or directory",
	}, seen.omitted)
	require.ElementsMatch(t, []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "b"), outside,
		filepath.Join(outside, "folder")}, seen.folders)

	seen, err = find(filepath.Join(dir, "missing"))
	require.NoError(t, err)
	require.Equal(t, found{missing: true, omitted: map[string]string{}, folders: []string{dir}}, seen)
}
