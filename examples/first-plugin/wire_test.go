package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	bia "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	lister "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	ria "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// The plugin as a host sees it: a binary, a process, a gRPC connection.
func TestTheBuiltPluginServesBothActionsOverTheWire(t *testing.T) {
	t.Parallel()
	conn, logs := start(t, build(t))

	listed, err := lister.NewPluginListerClient(conn).ListPlugins(t.Context(), &shared.Empty{})
	require.NoError(t, err)
	names := map[string]string{}
	for _, p := range listed.GetPlugins() {
		names[p.GetKind()] = p.GetName()
	}
	require.Equal(t, map[string]string{
		"BackupItemAction": "example.cleat.dev/mark", "RestoreItemAction": "example.cleat.dev/unmark",
	}, names)

	selector, err := bia.NewBackupItemActionClient(conn).AppliesTo(t.Context(),
		&bia.BackupItemActionAppliesToRequest{Plugin: names["BackupItemAction"]})
	require.NoError(t, err)
	require.Equal(t, []string{"configmaps", "deployments.apps"}, selector.GetResourceSelector().GetIncludedResources())

	const item = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"shop"},"unknown":{"a":[1,2.5,null]}}`
	marked, err := bia.NewBackupItemActionClient(conn).Execute(t.Context(), &bia.ExecuteRequest{
		Plugin: names["BackupItemAction"], Item: []byte(item), Backup: []byte(`{"metadata":{"name":"nightly"}}`),
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"ConfigMap","unknown":{"a":[1,2.5,null]},"metadata":{
		"name":"web","namespace":"shop","annotations":{"example.cleat.dev/marked-by":"nightly"}}}`, string(marked.GetItem()))

	restored, err := ria.NewRestoreItemActionClient(conn).Execute(t.Context(), &ria.RestoreItemActionExecuteRequest{
		Plugin: names["RestoreItemAction"], Item: marked.GetItem(), ItemFromBackup: marked.GetItem(), Restore: []byte(`{}`),
	})
	require.NoError(t, err)
	require.JSONEq(t, item, string(restored.GetItem()))

	line := awaitLine(t, logs, "marked for backup")
	require.Equal(t, "shop", line["namespace"])
	require.Equal(t, "web", line["name"])
	require.Equal(t, "info", line["@level"])
}

func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "first-plugin")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(output))
	return binary
}

// start runs binary as a host does; the process ends with the test. The reader is what the plugin logs.
func start(t *testing.T, binary string) (*grpc.ClientConn, io.Reader) {
	t.Helper()
	logs, lines := io.Pipe()
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  framework.Handshake(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Plugins:          plugin.PluginSet{"": connection{}},
		Cmd:              exec.Command(binary, "--log-level=info"),
		Stderr:           lines,
		Logger:           hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Error}),
	})
	t.Cleanup(func() {
		_ = logs.Close() // else Kill waits until somebody has read all lines
		client.Kill()
	})
	protocol, err := client.Client()
	require.NoError(t, err)
	conn, err := protocol.Dispense("")
	require.NoError(t, err)
	return conn.(*grpc.ClientConn), logs
}

// connection is go-plugin's way to hand out the gRPC connection itself.
type connection struct{ plugin.NetRPCUnsupportedPlugin }

func (connection) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this is the host's side")
}

func (connection) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// awaitLine reads the plugin's log until a line says message.
func awaitLine(t *testing.T, logs io.Reader, message string) map[string]any {
	t.Helper()
	for decoder := json.NewDecoder(logs); ; {
		line := map[string]any{}
		require.NoError(t, decoder.Decode(&line), "the plugin did not log %q", message)
		if line["@message"] == message {
			return line
		}
	}
}
