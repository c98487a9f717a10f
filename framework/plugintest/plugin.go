package plugintest

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Plugin is a plugin that runs until its test ends. Each method named after a kind and a version returns an
// implementation of that kind, as the author's interface; it ends the test if the plugin has none of that name.
type Plugin struct {
	t          testing.TB
	conn       grpc.ClientConnInterface
	logs       *logs
	registered []Registered
	kill       func()
}

// Registered describes one implementation of the plugin.
type Registered struct {
	Kind         string // whatever the version: "BackupItemAction"
	Version      int
	Name         string
	ConfigSchema string // JSON Schema; empty when it has none
}

// Run serves regs in the test's own process, over a connection in memory. Invalid registrations end the test.
func Run(t testing.TB, regs ...framework.Registration) *Plugin {
	t.Helper()
	p := &Plugin{t: t, logs: newLogs()}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.WaitForHandlers(true)) // a call that was cancelled can still write files that the test removes
	if err := hostapi.RegisterAll(server, hostapi.Environment{Log: hostapi.NewLogger(&stream{to: p.logs}, hclog.Trace),
		StateDir: t.TempDir()}, regs...); err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		t.Fatal(err)
	}
	p.kill = sync.OnceFunc(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve the plugin: %v", err)
		}
	})
	t.Cleanup(func() { _ = conn.Close() })
	p.begin(conn)
	return p
}

// begin does what Run and Start share once the plugin can be reached through conn.
func (p *Plugin) begin(conn grpc.ClientConnInterface) {
	p.t.Helper()
	p.conn = conn
	p.t.Cleanup(func() {
		p.Kill()
		if p.t.Failed() {
			p.t.Logf("log of the plugin:\n%s", p.logs)
		}
	})
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	var err error
	if p.registered, err = registered(ctx, conn); err != nil {
		p.t.Fatalf("ask the plugin what it has: %v", err)
	}
}

// registered asks a plugin for its implementations, through PluginLister if it is not built on this framework.
func registered(ctx context.Context, conn grpc.ClientConnInterface) ([]Registered, error) {
	info, err := plugininfov1.NewPluginInfoServiceClient(conn).GetPluginInfo(ctx, &plugininfov1.GetPluginInfoRequest{})
	if err == nil {
		var all []Registered
		for _, one := range info.GetPlugins() {
			all = append(all, Registered{one.GetKind(), int(one.GetVersion()), one.GetName(), string(one.GetConfigSchema())})
		}
		return all, nil
	}
	if status.Code(err) != codes.Unimplemented {
		return nil, err
	}
	listed, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(ctx, &shared.Empty{})
	if err != nil {
		return nil, err
	}
	var all []Registered
	for _, one := range listed.GetPlugins() {
		kind, version := hostapi.SplitWireKind(one.GetKind())
		all = append(all, Registered{Kind: kind, Version: version, Name: one.GetName()})
	}
	return all, nil
}

// Registered returns the implementations that the plugin reports.
func (p *Plugin) Registered() []Registered { return slices.Clone(p.registered) }

// Kill ends the plugin at once; a process is killed as by kill -9. Later calls fail. Kill may be called more than once,
// and is called at the end of the test.
func (p *Plugin) Kill() { p.kill() }

// Conn returns the connection to the plugin, for calls without an interface.
func (p *Plugin) Conn() grpc.ClientConnInterface { return p.conn }

// target is one implementation of a plugin. Every client of a kind has one.
type target struct {
	kind    string // whatever the version
	version int
	name    string
}

// target returns the implementation of a kind with that name, or ends the test.
func (p *Plugin) target(of hostapi.KindVersion, name string) target {
	p.t.Helper()
	kind, version := hostapi.SplitWireKind(of.Wire)
	return p.find(kind, version, name)
}

// find returns the implementation with that kind, version and name, or ends the test.
func (p *Plugin) find(kind string, version int, name string) target {
	p.t.Helper()
	var known []string
	for _, one := range p.registered {
		if one.Kind == kind && one.Version == version && one.Name == name {
			return target{kind: kind, version: version, name: name}
		}
		known = append(known, fmt.Sprintf("%s v%d %s", one.Kind, one.Version, one.Name))
	}
	p.t.Fatalf("the plugin has no %s v%d %s; it has: %s", kind, version, name, strings.Join(known, ", "))
	return target{}
}
