package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// pluginName is the name of every plugin here.
const pluginName = "example.io/defect"

// veleroKinds returns the kinds that PluginLister lists, in order.
func veleroKinds() []string {
	return []string{
		"BackupItemAction", "BackupItemActionV2", "VolumeSnapshotter", "ObjectStore",
		"RestoreItemAction", "RestoreItemActionV2", "DeleteItemAction", "ItemBlockAction",
	}
}

// program is a plugin process whose behaviour defects change.
type program struct {
	kinds     []string      // that are served
	slow      time.Duration // duration of each call
	calls     string        // file that the times of each call are written to
	handshake func(address string)
	flags     func(args []string)
	cookie    func()
	health    grpc_health_v1.HealthCheckResponse_ServingStatus
	options   []grpc.ServerOption
	list      func([]*pluginlisterv1.PluginIdentifier) ([]*pluginlisterv1.PluginIdentifier, error)
	info      func(*plugininfov1.GetPluginInfoResponse) (*plugininfov1.GetPluginInfoResponse, error)
	command   string
	shutdown  func()
	name      func(string) error // of a request
	skip      string             // kind that is announced but not served
	onSIGTERM func()
	action    *action
	store     *store
	san       *san
	schema    string // of the config of a policy
	queue     queue
	soothing  soothing
	manifest  manifest
	mover     *mover
}

func newProgram() *program {
	return &program{
		kinds:     allKinds(),
		handshake: func(address string) { fmt.Printf("1|2|unix|%s|grpc|\n", address) },
		flags:     func([]string) {},
		cookie: func() {
			fmt.Fprintln(os.Stderr, "This is a plugin; a host starts it.")
			os.Exit(1)
		},
		health:  grpc_health_v1.HealthCheckResponse_SERVING,
		options: []grpc.ServerOption{grpc.MaxRecvMsgSize(math.MaxInt32)},
		list:    func(l []*pluginlisterv1.PluginIdentifier) ([]*pluginlisterv1.PluginIdentifier, error) { return l, nil },
		info: func(i *plugininfov1.GetPluginInfoResponse) (*plugininfov1.GetPluginInfoResponse, error) {
			return i, nil
		},
		command:  os.Args[0],
		shutdown: func() { os.Exit(0) },
		name: func(name string) error {
			if name != pluginName {
				return fmt.Errorf("no plugin %q here", name)
			}
			return nil
		},
		action:   goodAction(),
		store:    goodStore(),
		san:      goodSAN(),
		schema:   `{"type":"object","properties":{"mode":{"type":"string"}},"additionalProperties":false}`,
		queue:    firstCome,
		soothing: limit,
		manifest: inventory,
		mover:    &mover{},
	}
}

func (p *program) run() {
	if os.Getenv("VELERO_PLUGIN") != "hello" {
		p.cookie()
	}
	p.flags(os.Args[1:])
	if p.onSIGTERM != nil {
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		go func() {
			for range terminated {
				p.onSIGTERM()
			}
		}()
	}
	address := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), fmt.Sprintf("defect-%d", os.Getpid()))
	listener, err := net.Listen("unix", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := grpc.NewServer(append(p.options, grpc.ChainUnaryInterceptor(p.sleep, p.checkName),
		grpc.StreamInterceptor(p.sleepStream))...)
	pluginlisterv1.RegisterPluginListerServer(server, lister{p: p})
	plugininfov1.RegisterPluginInfoServiceServer(server, info{p: p})
	if p.health != grpc_health_v1.HealthCheckResponse_UNKNOWN {
		healthy := health.NewServer()
		healthy.SetServingStatus("plugin", p.health)
		grpc_health_v1.RegisterHealthServer(server, healthy)
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Shutdown", Handler: func(any, context.Context, func(any) error,
			grpc.UnaryServerInterceptor) (any, error) {
			p.shutdown()
			return &emptypb.Empty{}, nil
		}}},
	}, struct{}{})
	for _, kind := range p.kinds {
		if kind != p.skip {
			p.register(server, kind)
		}
	}
	p.handshake(address)
	if err := server.Serve(listener); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sleep delays a call.
func (p *program) sleep(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	defer p.record(time.Now())
	time.Sleep(p.slow)
	return handle(ctx, req)
}

func (p *program) sleepStream(
	server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	defer p.record(time.Now())
	time.Sleep(p.slow)
	return handle(server, stream)
}

// record adds the times of a call to the file.
func (p *program) record(began time.Time) {
	if p.calls == "" {
		return
	}
	file, err := os.OpenFile(p.calls, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(file, began.UnixNano(), time.Now().UnixNano())
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// checkName rejects requests for other plugins.
func (p *program) checkName(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	if named, ok := req.(interface{ GetPlugin() string }); ok {
		if err := p.name(named.GetPlugin()); err != nil {
			return nil, status.Error(codes.NotFound, err.Error())
		}
	}
	return handle(ctx, req)
}

type lister struct {
	pluginlisterv1.UnimplementedPluginListerServer
	p *program
}

func (l lister) ListPlugins(context.Context, *shared.Empty) (*pluginlisterv1.ListPluginsResponse, error) {
	var all []*pluginlisterv1.PluginIdentifier
	for _, kind := range veleroKinds() {
		if slices.Contains(l.p.kinds, kind) {
			all = append(all, l.p.identifier(kind, pluginName))
		}
	}
	all, err := l.p.list(all)
	return &pluginlisterv1.ListPluginsResponse{Plugins: all}, err
}

func (p *program) identifier(kind, name string) *pluginlisterv1.PluginIdentifier {
	return &pluginlisterv1.PluginIdentifier{Command: p.command, Kind: kind, Name: name}
}

type info struct {
	plugininfov1.UnimplementedPluginInfoServiceServer
	p *program
}

func (i info) GetPluginInfo(
	context.Context, *plugininfov1.GetPluginInfoRequest,
) (*plugininfov1.GetPluginInfoResponse, error) {
	answer := &plugininfov1.GetPluginInfoResponse{PluginVersion: "1.2.3"}
	for _, kind := range i.p.kinds {
		version := int32(1)
		if kind[len(kind)-2:] == "V2" {
			kind, version = kind[:len(kind)-2], 2
		}
		plugin := &plugininfov1.Plugin{Kind: kind, Version: version, Name: pluginName}
		if slices.Contains([]string{"QueueAdmission", "LoadSoothing", "ManifestWriter"}, kind) {
			plugin.ConfigSchema = []byte(i.p.schema)
		}
		answer.Plugins = append(answer.Plugins, plugin)
	}
	return i.p.info(answer)
}
