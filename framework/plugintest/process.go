package plugintest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// Build builds the Go package at path, "." for the test's own, and returns the path of the binary, which is removed at
// the end of the test. When the source of the package or of its imports from its module has changed, the go command
// runs the test again instead of showing its last result.
func Build(t testing.TB, path string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "plugin")
	goCommand(t, "build", "-o", binary, path)
	if path == "." {
		return binary // the go command tracks the source of the test's own package
	}
	// It also tracks other files that the test has opened.
	for _, file := range strings.Split(goCommand(t, "list", "-deps", "-f", sources, path), "\n") {
		_, _ = os.Stat(file)
	}
	return binary
}

// sources is a template of "go list" that prints the directory of a package of the main module, and the files that are
// compiled into it.
const sources = `{{$p := .}}{{with .Module}}{{if .Main}}{{$p.Dir}}
{{range $p.GoFiles}}{{$p.Dir}}/{{.}}
{{end}}{{range $p.EmbedFiles}}{{$p.Dir}}/{{.}}
{{end}}{{end}}{{end}}`

func goCommand(t testing.TB, args ...string) string {
	t.Helper()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("go %s %s: %v\n%s", args[0], args[len(args)-1], err, problems.Bytes())
	}
	return out.String()
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
