package plugin

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/command"
)

func TestPluginInitWritesProjectOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mine")
	out, err := executePlugin(t, "plugin", "init", "example.io/stamp", "--dir", dir, "--module", "example.org/mine",
		"--kind", "ObjectStore")
	require.NoError(t, err)
	require.Contains(t, out, filepath.Join(dir, "object_store.go")+"\n")
	require.NotContains(t, out, "backup_item_action")
	require.Contains(t, out, "  cd "+dir+"\n  make test build\n")
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(mod), "module example.org/mine\n")
	require.Contains(t, string(mod), "cleat v1.2.3", "it is built on the framework of this release")
	require.NotContains(t, out, "no release")

	_, err = executePlugin(t, "plugin", "init", "example.io/stamp", "--dir", dir)
	require.ErrorContains(t, err, "nothing is overwritten")
	_, err = executePlugin(t, "plugin", "init", "stamp")
	require.ErrorContains(t, err, `plugin name "stamp" must be "domain/name"`)
	_, err = executePlugin(t, "plugin", "init")
	require.ErrorContains(t, err, "accepts 1 arg")
}

func TestPluginInitAsJSON(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mine")
	out, err := executePlugin(t, "plugin", "init", "example.io/stamp", "--dir", dir, "--kind",
		"ObjectStore,DeleteItemAction", "-o", "json")
	require.NoError(t, err)
	var project pluginProject
	require.NoError(t, json.Unmarshal([]byte(out), &project))
	require.Equal(t, "PluginProject", project.Kind)
	require.Equal(t, dir, project.Directory)
	require.Equal(t, "v1.2.3", project.Framework)
	require.Subset(t, project.Files, []string{"object_store.go", "delete_item_action.go", ".github/workflows/ci.yaml"})
	for _, file := range project.Files {
		require.FileExists(t, filepath.Join(dir, file))
	}

	other := filepath.Join(t.TempDir(), "other")
	_, err = executePlugin(t, "plugin", "init", "example.io/stamp", "--dir", other, "-o", "xml")
	require.ErrorContains(t, err, `--output "xml": want text, json or yaml`)
	require.NoDirExists(t, other)
}

// initAs runs "plugin init" in a program of the given version, and returns what it prints and the go.mod that it
// writes.
func initAs(t *testing.T, version string) (printed, mod string) {
	t.Helper()
	var out bytes.Buffer
	dir := filepath.Join(t.TempDir(), "mine")
	app := &command.App{Streams: command.Streams{Out: &out, Err: &out}, Version: version,
		Args: []string{"plugin", "init", "example.io/stamp", "--dir", dir}}
	require.NoError(t, command.NewRoot(app, NewCommand(app)).ExecuteContext(t.Context()))
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	return out.String(), string(content)
}

func TestPluginInitOfADevelopmentBuildUsesTheSourceTree(t *testing.T) {
	t.Parallel()
	tree, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for _, version := range []string{"dev", "v0.0.0-20260102030405-0123456789ab", "v1.2.3+dirty"} {
		printed, mod := initAs(t, version)
		require.Contains(t, printed, "The project is built on the source tree "+tree+"; ")
		require.Contains(t, mod, "\nreplace github.com/cleat-dev/cleat => "+tree+"\n")
	}
}

func TestPluginInitWithoutReleaseAndSourceTreeUsesTheLatestRelease(t *testing.T) { //nolint:paralleltest // it changes the working directory
	t.Chdir(t.TempDir())
	for _, version := range []string{"dev", "v0.0.0-20260102030405-0123456789ab", "v1.2.3+dirty"} {
		printed, mod := initAs(t, version)
		require.Contains(t, printed, "This cleat ("+version+") is not a release, so the project is built on the latest one; ")
		require.NotContains(t, mod, "require")
	}
}
