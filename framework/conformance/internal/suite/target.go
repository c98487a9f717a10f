package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/hostapi"
)

// Target is a plugin to be tested.
type Target interface {
	// String describes the target.
	String() string
	// Start runs it.
	Start(ctx context.Context, l process.Launch) (*Running, error)
}

// Running is one run of a target.
type Running struct {
	Conn    *grpc.ClientConn
	Process *process.Process // nil when it runs in this process
	Stop    func()           // ends the run and cleans up
}

// Binary is an executable as a target.
type Binary struct {
	Path string
	Args []string
}

func (b *Binary) String() string { return strings.Join(append([]string{b.Path}, b.Args...), " ") }

// Start implements Target.
func (b *Binary) Start(ctx context.Context, l process.Launch) (*Running, error) {
	l.Args = slices.Concat(b.Args, l.Args)
	p, err := process.StartProcess(ctx, b.Path, l)
	if err != nil {
		return nil, err
	}
	return &Running{Conn: p.Conn, Process: p, Stop: p.Stop}, nil
}

// ByHand runs the binary without the magic cookie, as a user does who takes it for a command.
func (b *Binary) ByHand(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, b.Path, b.Args...)
	cookie := hostapi.Handshake()
	cmd.Env = slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, cookie.MagicCookieKey+"=") })
	cmd.WaitDelay = process.Patience
	cmd.SysProcAttr = process.OwnGroup()
	cmd.Cancel = func() error { process.KillGroup(cmd.Process); return nil }
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return errors.New("it keeps running")
	case err == nil:
		return errors.New("it exits with the status 0")
	case said.Len() == 0:
		return fmt.Errorf("it exits with %w and writes nothing to stderr", err)
	}
	return nil
}

// InProcess serves registrations in the process of the test, as a target.
type InProcess struct{ Registrations []framework.Registration }

func (i *InProcess) String() string { return "in process" }

// Start implements Target.
func (i *InProcess) Start(context.Context, process.Launch) (*Running, error) {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(math.MaxInt32))
	if err := hostapi.RegisterAll(server, hostapi.Environment{Log: hclog.NewNullLogger()},
		i.Registrations...); err != nil {
		return nil, err
	}
	healthy := health.NewServer()
	healthy.SetServingStatus(plugin.GRPCServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthy)
	listener := bufconn.Listen(1 << 20)
	conn, err := process.Dial(nil, func(ctx context.Context) (net.Conn, error) { return listener.DialContext(ctx) })
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return &Running{Conn: conn, Stop: func() {
		_ = conn.Close()
		server.Stop()
		<-served
	}}, nil
}
