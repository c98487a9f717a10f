package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/cleat-dev/cleat/framework/hostapi"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// starts returns how often programs of the test have been started.
func starts() int {
	journal, _ := os.ReadFile(os.Getenv("CLEAT_TEST_JOURNAL"))
	return strings.Count(string(journal), "start\n")
}

// misbehaveAtStart does what the name of the file says and reports whether the program should exit.
func misbehaveAtStart(name string) bool {
	if times, err := strconv.Atoi(strings.TrimPrefix(name, "list-dies-")); err == nil {
		if starts() > times {
			return false
		}
		name = "list-dies"
	}
	if start, err := strconv.Atoi(strings.TrimPrefix(name, "dies-at-start-")); err == nil && starts() == start {
		os.Exit(4)
	}
	switch name {
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot read /etc/plugin.yaml: no such file or directory")
		os.Exit(3)
	case "panics":
		panic("no configuration")
	case "hangs":
		time.Sleep(time.Hour)
	case "prints-usage":
		fmt.Println("usage: prints-usage [FILE]")
		os.Exit(0)
	case "prints-for-ever":
		line := strings.Repeat("x", 100<<10)
		for {
			fmt.Println(line)
		}
	case "other-protocol":
		handshake := hostapi.Handshake()
		handshake.ProtocolVersion = 7
		serve(handshake, &lister{})
	case "listens-elsewhere":
		fmt.Println("1|2|tcp|192.0.2.1:80|grpc|")
		time.Sleep(time.Hour)
	case "list-fails":
		serve(hostapi.Handshake(), &lister{err: errors.New("the list is locked")})
	case "list-dies":
		serve(hostapi.Handshake(), &lister{dies: true})
	case "lists-nothing":
		serve(hostapi.Handshake(), &lister{})
	case "lists-nonsense":
		serve(hostapi.Handshake(), &lister{plugins: []*pluginlisterv1.PluginIdentifier{
			{Kind: "BackupItemAction", Name: "example.io/fine"},
			{Kind: "BackupItemAction", Name: "example.io/fine"},
			{Kind: "BackupItemAction", Name: "noslash"},
			{Kind: "RestoreItemAction", Name: "Not A Domain/x"},
			{Kind: "FromTheFuture", Name: "example.io/fine"},
			{Kind: "DeleteItemAction", Name: "example.io/fine"},
		}})
	case "garbage":
		serve(hostapi.Handshake(), &lister{plugins: []*pluginlisterv1.PluginIdentifier{
			{Kind: "BackupItemAction", Name: "example.io/garbage"},
		}})
	case "plain":
		_ = os.Unsetenv("PLUGIN_CLIENT_CERT") // as an old go-plugin that ignores it
		return false
	default:
		return false
	}
	return true
}

type lister struct {
	pluginlisterv1.UnimplementedPluginListerServer
	plugins []*pluginlisterv1.PluginIdentifier
	err     error
	dies    bool
}

func (l *lister) ListPlugins(context.Context, *shared.Empty) (*pluginlisterv1.ListPluginsResponse, error) {
	if l.dies {
		fmt.Fprintln(os.Stderr, "this goes through the connection, not through the pipe")
		os.Exit(9)
	}
	return &pluginlisterv1.ListPluginsResponse{Plugins: l.plugins}, l.err
}

// serve is a plugin without the framework: a list, and a BackupItemAction whose replies are not protobuf.
func serve(handshake plugin.HandshakeConfig, l *lister) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         plugin.PluginSet{"raw": &rawPlugin{lister: l}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.ForceServerCodecV2(rawCodec{encoding.GetCodecV2("proto")}))...)
		},
	})
}

type rawPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	lister *lister
}

func (p *rawPlugin) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	pluginlisterv1.RegisterPluginListerServer(server, p.lister)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "generated.BackupItemAction",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Execute", Handler: rawReply},
			{MethodName: "AppliesTo", Handler: rawReply}},
	}, p)
	return nil
}

func (p *rawPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is the plugin's side")
}

func rawReply(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	return []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, nil
}

// rawCodec sends bytes as they are and everything else as protobuf.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(raw)}, nil
	}
	return c.CodecV2.Marshal(v)
}
