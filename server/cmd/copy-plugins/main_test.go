package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestFilesAreCopied(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(from, "lib"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "lib", "mover"), []byte("new"), 0o755)) //nolint:gosec // it is a program
	require.NoError(t, os.Symlink("lib/mover", filepath.Join(from, "again")))
	require.NoError(t, os.WriteFile(filepath.Join(to, "again"), []byte("old"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(to, ".again.part"), 0o755)) // of a container that was killed
	require.NoError(t, copyAll(from, to))
	for _, name := range []string{"lib/mover", "again"} {
		content, err := os.ReadFile(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, "new", string(content))
		info, err := os.Lstat(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), info.Mode())
	}
	entries, err := os.ReadDir(to)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.ErrorContains(t, copyAll(from, filepath.Join(to, "none")), "mount the plugin directory of the server at ")
}

func TestLinksAndPipesAreNotFollowed(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for want, make := range map[string]func(from, to string) error{
		// by the image of another plugin
		"path escapes": func(_, to string) error { return os.Symlink(outside, filepath.Join(to, "lib")) },
		"escapes": func(from, _ string) error {
			return os.Symlink("/etc/hostname", filepath.Join(from, "a"))
		},
		"a is not a regular file but p": func(from, _ string) error { return unix.Mkfifo(filepath.Join(from, "a"), 0o600) },
	} {
		from, to := t.TempDir(), t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(from, "lib"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(from, "lib", "mover"), []byte("new"), 0o600))
		require.NoError(t, make(from, to))
		require.ErrorContains(t, copyAll(from, to), want)
		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}
