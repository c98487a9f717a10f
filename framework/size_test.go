package framework_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/programs"
)

func TestPluginIsLittleLargerThanGoPlugin(t *testing.T) {
	t.Parallel()
	size := func(name string) float64 {
		info, err := os.Stat(program(t, name))
		require.NoError(t, err)
		return float64(info.Size())
	}
	bare, hello := size("bare"), size("hello")
	t.Logf("hello %.1f MB, bare %.1f MB, ratio %.2f", hello/1e6, bare/1e6, hello/bare)
	require.LessOrEqual(t, hello/bare, 1.4)
}

func TestPluginLinksFewModules(t *testing.T) {
	t.Parallel()
	output, err := exec.CommandContext(t.Context(), "go", "version", "-m", program(t, "hello")).Output()
	require.NoError(t, err)
	modules := strings.Count(string(output), "\n\tdep\t")
	t.Logf("%d modules", modules)
	require.Positive(t, modules)
	require.Less(t, modules, 45)
}

func TestFrameworkDoesNotLinkUnneededPackages(t *testing.T) {
	t.Parallel()
	programs.Depend(t, "./framework/...")
	output, err := exec.CommandContext(t.Context(), "go", "list", "./...").Output()
	require.NoError(t, err)
	// These are for plugins that have the API of the core group anyway.
	own := slices.DeleteFunc(strings.Fields(string(output)), func(pkg string) bool {
		return pkg == "github.com/cleat-dev/cleat/framework/podclaims" ||
			pkg == "github.com/cleat-dev/cleat/framework/nodeagents"
	})
	output, err = exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, own...)...).Output()
	require.NoError(t, err)
	packages := strings.Fields(string(output))
	require.Contains(t, packages, "github.com/cleat-dev/cleat/framework")
	for _, forbidden := range []string{
		"k8s.io/client-go", "k8s.io/api", "sigs.k8s.io/controller-runtime",
		"github.com/cleat-dev/cleat/server", "github.com/cleat-dev/cleat/versioning", "github.com/cleat-dev/cleat/plugins",
	} {
		for _, pkg := range packages {
			require.False(t, pkg == forbidden || strings.HasPrefix(pkg, forbidden+"/"), "%s is linked into plugins", pkg)
		}
	}
}

func TestPluginLinksOnlyWhatItUses(t *testing.T) {
	t.Parallel()
	programs.Depend(t, "./framework/testdata/hello")
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./testdata/hello").Output()
	require.NoError(t, err)
	packages := strings.Fields(string(output))
	require.Contains(t, packages, "github.com/cleat-dev/cleat/framework")
	for _, optional := range []string{"operations", "plugintest", "conformance", "queueadmission/v1"} {
		require.NotContains(t, packages, "github.com/cleat-dev/cleat/framework/"+optional)
	}
}
