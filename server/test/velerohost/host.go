// Package velerohost starts plugins as stock Velero does, for tests. It may only import go-plugin and testify.
package velerohost

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// host is the host side of go-plugin. It dispenses the bare connection.
type host struct{ plugin.NetRPCUnsupportedPlugin }

func (host) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host serves nothing")
}

func (host) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// Config returns the configuration with which Velero starts cmd: its handshake spelled out, without TLS. go-plugin adds
// the environment of this process to that of cmd.
func Config(cmd *exec.Cmd) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 2, MagicCookieKey: "VELERO_PLUGIN",
			MagicCookieValue: "hello"},
		Plugins:          plugin.PluginSet{"any": host{}},
		Cmd:              cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
	}
}

// Start starts a plugin, which runs until the test ends.
func Start(t *testing.T, config *plugin.ClientConfig) (*grpc.ClientConn, error) {
	t.Helper()
	client := plugin.NewClient(config)
	t.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	dispensed, err := protocol.Dispense("any")
	require.NoError(t, err)
	conn, ok := dispensed.(*grpc.ClientConn)
	require.True(t, ok)
	return conn, nil
}
