package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
)

// announcement holds the kinds that a plugin lists and those that it serves.
type announcement struct {
	List   []*pluginlisterv1.PluginIdentifier
	Info   *plugininfov1.GetPluginInfoResponse // nil: PluginInfo is not served
	Serves []string                            // gRPC services of actions, "v2.BackupItemAction"
}

// announce serves the announcement in CLEAT_TEST_ANNOUNCE and returns false if there is none. Its actions return their
// item unchanged; all other calls return an empty message.
func announce() bool {
	wanted := os.Getenv("CLEAT_TEST_ANNOUNCE")
	if wanted == "" {
		return false
	}
	var a announcement
	if err := json.Unmarshal([]byte(wanted), &a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: hostapi.Handshake(),
		Plugins:         plugin.PluginSet{"announced": noPlugin{}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.UnknownServiceHandler(a.answer))...)
		},
	})
	return true
}

// answer serves every method.
func (a *announcement) answer(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	service := strings.TrimPrefix(path.Dir(method), "/")
	var request backupitemactionv1.ExecuteRequest // plugin and item have the same fields in all requests of actions
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	var reply proto.Message
	switch {
	case method == "/generated.PluginLister/ListPlugins":
		reply = &pluginlisterv1.ListPluginsResponse{Plugins: a.List}
	case method == "/cleat.plugininfo.v1.PluginInfoService/GetPluginInfo" && a.Info != nil:
		reply = a.Info
	case !slices.Contains(a.Serves, service):
		return status.Errorf(codes.Unimplemented, "unknown service %s", service)
	case path.Base(method) == "AppliesTo":
		reply = &backupitemactionv1.BackupItemActionAppliesToResponse{}
	case path.Base(method) == "Execute":
		journal("called " + method + " of " + request.GetPlugin())
		reply = &backupitemactionv1.ExecuteResponse{Item: request.GetItem()}
	default:
		journal("called " + method + " of " + request.GetPlugin())
		reply = &backupitemactionv1.ExecuteResponse{} // the empty message of any type
	}
	return stream.SendMsg(reply)
}

// noPlugin registers no services.
type noPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (noPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (noPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is the plugin's side")
}
