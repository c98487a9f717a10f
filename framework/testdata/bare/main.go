// Command bare is a go-plugin gRPC plugin without any service. Other plugins are measured against it.
package main

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "BARE", MagicCookieValue: "bare"},
		Plugins:         plugin.PluginSet{"bare": empty{}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}

type empty struct{ plugin.NetRPCUnsupportedPlugin }

func (empty) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (empty) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}
