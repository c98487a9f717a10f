package nodeplugin

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(content)
}

func TestPluginIsShort(t *testing.T) {
	t.Parallel()
	lines := 0
	for _, name := range []string{"plugin.mjs", "copies.mjs", "json.mjs", "serve.mjs"} {
		lines += strings.Count(read(t, name), "\n")
	}
	t.Logf("%d lines, comments included", lines)
	require.Less(t, lines, 200)
}

func TestLockFileHasNoRegistry(t *testing.T) {
	t.Parallel()
	lock := read(t, "package-lock.json")
	require.Contains(t, lock, `"integrity": "sha512-`)
	require.NotContains(t, lock, `"resolved"`, "the registry depends on who installs the plugin")
}
