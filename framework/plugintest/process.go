package plugintest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// Build builds the Go package at path, "." for the test's own, and returns the path of the binary, which is removed at
// the end of the test.
func Build(t testing.TB, path string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "plugin")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, path).CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", path, err, output)
	}
	return binary
}

// Start starts binary as a host does. args are its command line; without any it is "--log-level=trace".
func Start(t testing.TB, binary string, args ...string) *Plugin {
	t.Helper()
	if len(args) == 0 {
		args = []string{"--log-level=trace"}
	}
	sockets, err := os.MkdirTemp("", "plugin-") // t.TempDir is too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	p := &Plugin{t: t, logs: newLogs()}
	cmd := exec.Command(binary, args...)
	cmd.Env = []string{plugin.EnvUnixSocketDir + "=" + sockets}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  hostapi.Handshake(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		Plugins:          plugin.PluginSet{"": connection{}},
		Cmd:              cmd,
		Stderr:           &stream{to: p.logs},
		SyncStdout:       &stream{to: p.logs},
		SyncStderr:       &stream{to: p.logs},
		Logger:           hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		client.Kill() // waits for the rest of its output
		t.Fatalf("start the plugin %s: %v\nits output:\n%s", binary, err, p.logs)
	}
	p.kill = func() {
		_ = cmd.Process.Kill()
		for !client.Exited() { // go-plugin waits for the process but has no channel for its end
			time.Sleep(time.Millisecond)
		}
	}
	dispensed, err := protocol.Dispense("")
	if err != nil {
		t.Fatal(err)
	}
	conn, ok := dispensed.(*grpc.ClientConn)
	if !ok {
		t.Fatalf("connection to the plugin is a %T", dispensed)
	}
	p.begin(conn)
	return p
}

// connection gives access to go-plugin's gRPC connection.
type connection struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCServer implements plugin.GRPCPlugin.
func (connection) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this is the host's side")
}

// GRPCClient implements plugin.GRPCPlugin.
func (connection) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}
