package pluginhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPluginsWritableByOthersAreRefused(t *testing.T) {
	t.Parallel()
	const reason = `plugin %s is not started: others than its owner can change the %s %s, its mode is %s; run "chmod go-w %s"`
	refused := func(what, path, mode string) string {
		return fmt.Sprintf(reason, "/plugins/vendor/script", what, path, mode, path)
	}
	tests := map[string]struct {
		path string // below the plugin directory
		mode os.FileMode
		want string // empty when it runs
	}{
		"the directory, by its group": {"", 0o775, refused("directory", "/plugins", "drwxrwxr-x")},
		"the directory, by all":       {"", 0o757, refused("directory", "/plugins", "drwxr-xrwx")},
		"the directory, as /tmp":      {"", 0o777 | os.ModeSticky, ""}, // others cannot replace what is in it
		"a folder in it":              {"vendor", 0o775, refused("directory", "/plugins/vendor", "drwxrwxr-x")},
		"the folder of the file, as /tmp": {"vendor", 0o777 | os.ModeSticky,
			refused("directory", "/plugins/vendor", "dtrwxrwxrwx")},
		"the file": {"vendor/script", 0o775, refused("file", "/plugins/vendor/script", "-rwxrwxr-x")},
		"another folder, which is not on the way": {"another", 0o777, ""},
		"the folder above the directory":          {"..", 0o777, refused("directory", "ABOVE", "drwxrwxrwx")},
		"the folder above the directory, as /tmp": {"..", 0o777 | os.ModeSticky, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := scriptDir(t)
			mended := filepath.Join(dir, test.path)
			require.NoError(t, os.Chmod(mended, test.mode))
			h := newTestHost(t, dir, nil)
			require.Equal(t, strings.ReplaceAll(test.want, "ABOVE", filepath.Dir(dir)), h.refused())
			if test.want == "" {
				return
			}
			require.Zero(t, h.journalCount("start"))
			require.NoError(t, os.Chmod(mended, 0o755))
			require.NoError(t, h.Rescan(t.Context()))
			require.Empty(t, h.refused(), "once the command has been run it is used, without a restart of the server")
			_, err := execute(t.Context(), h.behave(t), "nothing")
			require.NoError(t, err)
		})
	}
}

func TestFolderOfLinkTargetIsChecked(t *testing.T) {
	t.Parallel()
	dir, elsewhere := scriptDir(t), t.TempDir()
	path, real := filepath.Join(dir, "vendor/script"), filepath.Join(elsewhere, "script")
	require.NoError(t, os.Rename(path, real))
	require.NoError(t, os.Symlink(real, path))
	require.NoError(t, os.Chmod(elsewhere, 0o777))
	h := newTestHost(t, dir, nil)
	require.Contains(t, h.refused(), "others than its owner can change the directory "+elsewhere)
}

func TestPodVolumeMayBeWritable(t *testing.T) {
	t.Parallel()
	dir := scriptDir(t)
	require.NoError(t, os.Chmod(dir, 0o777)) // as an emptyDir
	require.NoError(t, os.Chmod(filepath.Join(dir, "vendor/script"), 0o777))
	const warning = "[WARN]  everything that shares this volume of the pod can change the plugins"
	for _, volume := range []bool{true, false} {
		h := newTestHost(t, dir, func(c *Config) {
			c.isVolume = func(path string) bool { return volume && path == dir }
		})
		require.Equal(t, volume, h.refused() == "")
		require.Equal(t, volume, strings.Contains(h.log.String(), warning))
	}

	require.NoError(t, os.Chmod(dir, 0o755)) // the mode of its content does not matter either
	h := newTestHost(t, dir, func(c *Config) { c.isVolume = func(string) bool { return true } })
	require.Empty(t, h.refused())
	require.NotContains(t, h.log.String(), warning)
}

// scriptDir returns a plugin directory with a plugin that is a separate file.
func scriptDir(t *testing.T) string {
	t.Helper()
	built, err := buildMisbehave()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "plugins")
	for _, folder := range []string{"vendor", "another"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	writeExecutable(t, filepath.Join(dir, "vendor/script"), fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", built))
	return dir
}
