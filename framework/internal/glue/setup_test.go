package glue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStateDirIsSeparatePerPlugin(t *testing.T) {
	root := t.TempDir()
	t.Setenv("VELERO_SCRATCH_DIR", root)
	other := t.TempDir()
	for name, test := range map[string]struct{ configured, plugin, want string }{
		"the server's directory": {"", "example.io/mover", filepath.Join(root, "plugin-state", "example.io", "mover")},
		"a directory of its own": {other, "example.io/mover", filepath.Join(other, "plugin-state", "example.io", "mover")},
		"any text": {other, "velero.io/Any Text", filepath.Join(other, "plugin-state", "velero.io",
			"Any Text")},
		"dots in a name": {other, "a.b/..c", filepath.Join(other, "plugin-state", "a.b", "..c")},
	} {
		setup := &Setup{name: test.plugin, env: Environment{StateDir: test.configured}}
		dir, err := setup.StateDir()
		require.NoError(t, err, name)
		require.Equal(t, test.want, dir, name)
		info, err := os.Stat(dir)
		require.NoError(t, err, name)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), name)
	}
}

func TestStateDirRefusesNamesThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{
		"example.io/..", "example.io/.", ".", "..", "../../etc", "example.io/", "example.io", "example.io/a/b", "../x",
		"example.io/../..",
		`example.io/a\..\b`, "example.io/C:", "example.io/a\x00b",
	} {
		_, err := (&Setup{name: name, env: Environment{StateDir: root}}).StateDir()
		require.ErrorContains(t, err, "cannot be the name of a state directory", "%q", name)
		require.NotContains(t, strings.TrimSpace(err.Error()), "\x00")
	}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, entries, "a refused name makes no directory")
}
