package glue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/internal/codec"
)

// Serve serves regs to the host that started the process, and returns when the host ends it.
func Serve(regs ...Registration) {
	config, err := serveConfig(os.Args[1:], os.Stderr, regs)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
	unused := make([]byte, spare)
	plugin.Serve(config)
	runtime.KeepAlive(unused)
}

// spare is memory, in bytes, that is never touched, so that it takes up nothing; the collector counts it. Without it a
// process whose own data are as small as those of most plugins would collect its garbage again with every large item.
const spare = 8 << 20

// serveConfig prepares all that can go wrong before the handshake.
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

// window is how many bytes the host may be ahead of what has been read, of one call and of all. Without it gRPC
// finds a size out by asking the host with every call how fast it is.
const window = 4 << 20

// workers is how many calls run on goroutines that are kept, whose stacks have grown to what handlers need. More calls
// at once have goroutines of their own.
const workers = 16

// newGRPCServer lifts gRPC's limit of 4 MiB on what is received: an item and a backup travel in one message,
// and each alone may have up to 1.5 MiB in etcd, more once decoded from protobuf.
func newGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(math.MaxInt32), grpc.ForceServerCodecV2(codec.New()),
		grpc.NumStreamWorkers(workers), grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window))...)
}

// servedCatalog is go-plugin's view of a catalog. One of it serves all kinds: the names in go-plugin's set
// never reach the wire, the gRPC services do.
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

// GRPCClient implements plugin.GRPCPlugin, which asks for both sides; this one is the server's.
func (s *servedCatalog) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the plugin's side of a connection has no client")
}
