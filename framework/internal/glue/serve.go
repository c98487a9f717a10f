package glue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// Serve serves regs to the host that started the process, and returns when the host stops it.
func Serve(regs ...Registration) {
	config, err := serveConfig(os.Args[1:], os.Stderr, regs)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
	unused := make([]byte, spare)
	plugin.Serve(config)
	streams.Wait()
	runtime.KeepAlive(unused)
}

// streams are the calls with a stream, such as those of data movers. One that was cancelled, because the host stops the
// process, still cleans up: it removes its locks and keeps what it has stored. The host does not wait for ever.
var streams sync.WaitGroup

func countStream(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	streams.Add(1)
	defer streams.Done()
	return handle(service, stream)
}

// spare is the size, in bytes, of memory that is allocated but never touched, so that it occupies no pages but counts
// for the garbage collector. Without it the small heap of most plugins would be collected again with every large item.
const spare = 8 << 20

// serveConfig does everything before the handshake that can fail.
func serveConfig(args []string, stderr io.Writer, regs []Registration) (*plugin.ServeConfig, error) {
	flags := ParseFlags(args)
	log := NewLogger(stderr, flags.LogLevel)
	c, err := newCatalog(Environment{Log: log, Features: flags.Features, StateDir: os.Getenv(StateDirEnv)}, regs)
	if err != nil {
		return nil, err
	}
	return &plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{"all kinds": &servedCatalog{catalog: c}},
		GRPCServer:      newGRPCServer,
		Logger:          log,
	}, nil
}

// window is the flow-control window, in bytes, of a call and of a connection. A fixed window switches off gRPC's
// estimate, which pings the host with every call.
const window = 4 << 20

// workers is the number of calls that run on reused goroutines, whose stacks have already grown to what handlers need.
// Further concurrent calls get goroutines of their own.
const workers = 16

// newGRPCServer returns a server without gRPC's limit of 4 MiB for received messages: an item and a backup travel in
// one message, and each may have up to 1.5 MiB in etcd, and more once decoded from protobuf.
func newGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(math.MaxInt32), grpc.ChainStreamInterceptor(countStream),
		grpc.NumStreamWorkers(workers), grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window))...)
}

// servedCatalog makes a catalog a go-plugin plugin. A single one serves all kinds: the names in go-plugin's set never
// reach the wire, only the gRPC services do.
type servedCatalog struct {
	plugin.NetRPCUnsupportedPlugin
	catalog *catalog
}

var _ plugin.GRPCPlugin = (*servedCatalog)(nil)

// GRPCServer implements plugin.GRPCPlugin.
func (s *servedCatalog) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	s.catalog.bind(server)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin, which requires both sides; this is the server's.
func (s *servedCatalog) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the plugin's side of a connection has no client")
}
