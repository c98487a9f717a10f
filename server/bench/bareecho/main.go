// Command bareecho is the baseline of the benchmarks of plugin calls: a gRPC server in a process of its own that
// returns every item unchanged. go-plugin does the handshake and encrypts the connection, as for any plugin; of the
// project it has the messages only.
package main

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
)

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: hostapi.Handshake(),
		Plugins:         plugin.PluginSet{"echo": &echo{}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}

type echo struct {
	plugin.NetRPCUnsupportedPlugin
	backupitemactionv2.UnimplementedBackupItemActionServer
}

// Execute returns the item.
func (*echo) Execute(
	_ context.Context, req *backupitemactionv2.ExecuteRequest,
) (*backupitemactionv2.ExecuteResponse, error) {
	return &backupitemactionv2.ExecuteResponse{Item: req.GetItem()}, nil
}

// GRPCServer implements plugin.GRPCPlugin.
func (e *echo) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	backupitemactionv2.RegisterBackupItemActionServer(server, e)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (*echo) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is the plugin's side")
}
