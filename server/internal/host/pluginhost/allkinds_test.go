package pluginhost

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/server/internal/setup/plugininit"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/velerohost"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

const (
	authored      = "example.io/stamp"
	authoredClaim = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","namespace":"shop","uid":"c-1"}}`
)

// TestAcceptPlugins_ModuleOfAllKinds builds a module outside this tree that has all kinds, as `cleat plugin init`
// writes it. This server uses each of them, and stock Velero finds its own. The project's tests call all kinds, and
// TestAcceptPlugins_WireGolden calls a plugin as Velero does.
func TestAcceptPlugins_ModuleOfAllKinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := filepath.Join(dir, "stamp")
	buildAuthored(t, command)
	t.Run("in this server", func(t *testing.T) { t.Parallel(); requireAuthoredInThisServer(t, dir) })
	t.Run("in Velero", func(t *testing.T) { t.Parallel(); requireAuthoredInVelero(t, command) })
}

// buildAuthored writes and builds the module. Its go.sum is that of this tree, so that it needs no network.
func buildAuthored(t *testing.T, command string) {
	t.Helper()
	tree, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	module := t.TempDir()
	_, err = plugininit.Write(module, plugininit.Options{Name: authored, Kinds: plugininit.Kinds(), Framework: tree})
	require.NoError(t, err)
	sum, err := os.ReadFile(filepath.Join(tree, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(module, "go.sum"), sum, 0o600))
	programs.Depend(t, "./framework/...")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", command, ".")
	build.Dir, build.Env = module, append(os.Environ(), "GOWORK=off")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

func requireAuthoredInThisServer(t *testing.T, dir string) {
	t.Helper()
	h := newTestHost(t, dir, func(c *Config) {
		c.Args = serverArguments()
		c.Environment = append(c.Environment, hostapi.StateDirEnv+"="+t.TempDir())
	})
	var used []string
	for _, entry := range h.Entries() {
		require.Empty(t, entry.Quarantined, entry.Kind)
		require.True(t, entry.Used, entry.Kind)
		require.Equal(t, authored, entry.Name)
		wire, known := kinds.Lookup(entry.Kind)
		require.True(t, known, entry.Kind)
		used = append(used, wire.Kind)
	}
	require.ElementsMatch(t, plugininit.Kinds(), used)
}

// startAsVelero starts a plugin as stock Velero does, with environment added to its own.
func startAsVelero(t *testing.T, command string, environment ...string) *grpc.ClientConn {
	t.Helper()
	cmd := exec.Command(command, serverArguments()...)
	cmd.Env = environment
	conn, err := velerohost.Start(t, velerohost.Config(cmd))
	require.NoError(t, err)
	return conn
}

func requireAuthoredInVelero(t *testing.T, command string) {
	t.Helper()
	conn, ctx := startAsVelero(t, command), t.Context()
	listed, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(ctx, &shared.Empty{})
	require.NoError(t, err)
	var found []string
	for _, one := range listed.GetPlugins() {
		require.Equal(t, authored, one.GetName())
		require.Equal(t, command, one.GetCommand())
		found = append(found, one.GetKind())
	}
	require.ElementsMatch(t, []string{
		"BackupItemActionV2", "RestoreItemActionV2", "DeleteItemAction", "ItemBlockAction", "ObjectStore",
		"VolumeSnapshotter",
	}, found, "Velero does not start with a kind that it does not know")
}
