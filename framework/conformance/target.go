package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

// Target is a plugin to be tested. See Binary and InProcess.
type Target interface {
	// String describes the target.
	String() string
	// start runs it.
	start(ctx context.Context, l process.Launch) (*running, error)
}

// running is one run of a target.
type running struct {
	conn    *grpc.ClientConn
	process *process.Process // nil when it runs in this process
	stop    func()           // ends the run and cleans up
}

// Binary returns the executable at path as a target. It is started with args many times, and killed.
func Binary(path string, args ...string) Target {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return &binary{path: path, args: args}
}

type binary struct {
	path string
	args []string
}

func (b *binary) String() string { return strings.Join(append([]string{b.path}, b.args...), " ") }

func (b *binary) start(ctx context.Context, l process.Launch) (*running, error) {
	l.Args = slices.Concat(b.args, l.Args)
	p, err := process.StartProcess(ctx, b.path, l)
	if err != nil {
		return nil, err
	}
	return &running{conn: p.Conn, process: p, stop: p.Stop}, nil
}

// InProcess returns a target that serves regs in the process of the test. Rules about the process are skipped. A panic in a
// goroutine of the plugin ends the test.
func InProcess(regs ...framework.Registration) Target { return &inProcess{regs: regs} }

type inProcess struct{ regs []framework.Registration }

func (i *inProcess) String() string { return "in process" }

func (i *inProcess) start(context.Context, process.Launch) (*running, error) {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(math.MaxInt32))
	if err := hostapi.RegisterAll(server, hostapi.Environment{Log: hclog.NewNullLogger()}, i.regs...); err != nil {
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
	return &running{conn: conn, stop: func() {
		_ = conn.Close()
		server.Stop()
		<-served
	}}, nil
}

func asSkipped(err error, target **skipped) bool { return errors.As(err, target) }

// byHand runs the binary without the magic cookie, as a user does who takes it for a command.
func (b *binary) byHand(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, b.path, b.args...)
	cookie := hostapi.Handshake()
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, cookie.MagicCookieKey+"=") })
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
