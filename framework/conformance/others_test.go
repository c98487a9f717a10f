package conformance_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	nodeplugin "github.com/cleat-dev/cleat/examples/node-plugin"
	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/stockplugins"
)

// othersPlugins tests good plugins that are not built on framework: one in JavaScript, and doubles of those that
// vendors ship for Velero.
func othersPlugins(t *testing.T) {
	t.Parallel()
	for _, year := range stockplugins.Years() {
		t.Run("for Velero, of "+year, func(t *testing.T) {
			t.Parallel()
			binary, err := stockplugins.Build(year, t.TempDir())
			require.NoError(t, err)
			var broken []string
			if year == "2024" { // all its operations have the same id
				broken = []string{"BackupItemActionV2 velero.io/stock-2024: operation-own",
					"RestoreItemActionV2 velero.io/stock-2024: operation-own"}
			}
			requireConformant(t, binary, broken...)
		})
	}
	t.Run("in JavaScript", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("npm"); err != nil && os.Getenv("CI") == "" {
			t.Skip("npm is not installed")
		}
		dir := t.TempDir()
		require.NoError(t, os.Setenv("CLEAT_COPY_DIR", filepath.Join(dir, "copies")))
		built, err := programs.NodePlugin(nodeplugin.Build)
		require.NoError(t, err)
		binary := filepath.Join(dir, "node-plugin")
		require.NoError(t, programs.CopyFile(built, binary))
		requireConformant(t, binary)
	})
}

// requireConformant requires that a plugin keeps every rule but those that are broken on purpose, and that rules of
// each of its plugins could be checked.
func requireConformant(t *testing.T, binary string, onPurpose ...string) {
	t.Helper()
	report, err := conformance.Run(t.Context(), conformance.Binary(binary), conformance.WithTimeout(patience))
	require.NoError(t, err)
	found := broken(report, conformance.Failed, conformance.Warned)
	require.ElementsMatch(t, onPurpose, slices.Collect(maps.Keys(found)), "%v", found)
	require.Greater(t, len(report.Plugins), 2)
	t.Log(report.Summary())
}
