package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/output"
)

const (
	// gRPC servers refuse pings that come more often than every 5 minutes.
	keepaliveTime    = 6 * time.Minute
	keepaliveTimeout = time.Minute
	// window is how many bytes a plugin may send before they are read. Without it gRPC estimates a size with pings.
	window = 4 << 20
	// endTime is the time that a process whose connection broke gets to exit.
	endTime = 5 * time.Second
	// drainPause separates two looks at a process's output; see process.drain.
	drainPause = time.Millisecond
)

// Launch describes a binary to run.
type Launch struct {
	Binary *Binary
	Args   []string
	// Check is called before each start and returns what runs, the binary itself or a sealed copy, which is closed when
	// the process has ended. An error means that it must not run. nil allows every start.
	Check func(*Binary) (*Binary, error)
	// Enclosure is the part of the file system that the process sees; nil means all of it. An enclosed process is not
	// started again after its end.
	Enclosure *Enclosure
	// Own is set if the process serves one user, for whom it may keep state. It ends soon after its last use, and stays as
	// it is while it is used, even if what it has read has changed.
	Own bool
	// Plugin is the only plugin that is called here; empty when there are several.
	Plugin string
	// OnStart prepares every new process before it gets its first call. nil when there is nothing to do.
	OnStart func(ctx context.Context, conn grpc.ClientConnInterface) error
}

// process is one run of a plugin binary, with its connection.
type process struct {
	child    *child
	config   *plugin.ClientConfig // client's
	client   *plugin.Client
	conn     *grpc.ClientConn
	address  net.Addr // from the handshake
	path     string
	settings *PoolConfig
	output   *output.Output
	stopped  atomic.Bool              // by the server, so its end is not a failure
	reason   atomic.Pointer[string]   // why the server killed it, if it did
	wire     atomic.Pointer[net.Conn] // the transport of conn
}

// startChecked starts the binary that the check of a launch returns, and closes it when the process has ended.
func startChecked(ctx context.Context, l *Launch, cfg *PoolConfig, o *output.Output) (*process, error) {
	binary := l.Binary
	if l.Check != nil {
		var err error
		if binary, err = l.Check(l.Binary); err != nil {
			return nil, fmt.Errorf("plugin %s is not started: %w", l.Binary.Path, err)
		}
	}
	p, err := startProcess(ctx, binary, l, cfg, o)
	switch {
	case binary == l.Binary:
	case err != nil:
		_ = binary.Close()
	default:
		go func() {
			<-p.child.done
			_ = binary.Close()
		}()
	}
	return p, err
}

// startProcess runs a binary until it can be called. It gives up when ctx ends or the start deadline is over; then
// nothing of the process is left. If the process exits by itself the error is a DiedError.
func startProcess(ctx context.Context, binary *Binary, l *Launch, cfg *PoolConfig, o *output.Output) (*process, error) {
	offered, variable, err := offerTLS()
	if err != nil {
		return nil, err
	}
	p := &process{path: binary.Path, settings: cfg, output: o}
	p.child = newChild(binary, p.output)
	p.child.memory, p.child.enclose = cfg.Limits.Memory, l.Enclosure
	written := &output.LineWriter{Handle: func(line []byte) { p.output.Line(line, false) }}
	p.config = &plugin.ClientConfig{
		HandshakeConfig:  hostapi.Handshake(),
		Plugins:          plugin.PluginSet{}, // kinds are bound to the raw connection
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
		TLSConfig:        offered, // go-plugin adds the plugin's certificate
		SkipHostEnv:      true,
		StartTimeout:     max(cfg.Calls.Deadlines().Start, time.Hour), // ours is in startContext
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: cfg.TempDir},
		SyncStdout:       written,
		SyncStderr:       written,
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithContextDialer(p.dial),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cfg.Limits.MessageSize)),
			grpc.WithInitialWindowSize(window),
			grpc.WithInitialConnWindowSize(window),
			grpc.WithIdleTimeout(0), // a closed connection means that the process has ended
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			return p.child, p.child.prepare(dir, l.Args, slices.Concat(cfg.Environment, cmd.Env, []string{variable}))
		},
	}
	p.client = plugin.NewClient(p.config)

	ctx, cancel := startContext(ctx, p.settings.Calls.Deadlines().Start)
	defer cancel()
	connected := make(chan error, 1)
	go func() { connected <- p.connect() }()
	select {
	case err = <-connected:
	case <-ctx.Done():
		p.end()
		<-connected
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, p.startError(ctx, err)
	}
	return p, nil
}

// startContext bounds all steps of a start; a negative limit means no limit.
func startContext(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, errStartTimeout)
}

var errStartTimeout = errors.New("start deadline is over")

// slowError is returned for a plugin that cannot be called within the start deadline.
type slowError struct {
	path  string
	limit time.Duration
}

func (e *slowError) Error() string {
	return fmt.Sprintf("start plugin %s: it did not offer its services within %s; a plugin prints one handshake line to "+
		"stdout and serves gRPC", e.path, e.limit)
}

// MayWork reports whether a plugin that failed with err may work when it is started again: it died or was too slow.
func MayWork(err error) bool {
	return errors.As(err, new(*calls.DiedError)) || errors.As(err, new(*calls.OverdueError)) ||
		errors.As(err, new(*slowError))
}

// connect waits for the handshake and opens the connection.
func (p *process) connect() error {
	address, err := p.client.Start()
	if err != nil {
		return err
	}
	p.address = address
	if !p.encrypted() {
		p.config.TLSConfig = nil
	}
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	client, ok := protocol.(*plugin.GRPCClient)
	if !ok {
		return fmt.Errorf("it speaks %T, want gRPC", protocol)
	}
	p.conn = client.Conn
	return nil
}

// encrypted reports whether host and plugin have checked the certificates of each other, so that no third party can
// take part. The server offers TLS to every plugin. A plugin that accepts, as go-plugin does since 2019, sends its
// certificate in the handshake line; connections to other plugins are plain.
func (p *process) encrypted() bool {
	return p.config.TLSConfig != nil && p.config.TLSConfig.RootCAs != nil
}

func (p *process) dial(ctx context.Context, _ string) (net.Conn, error) {
	var dialer net.Dialer
	wire, err := dialer.DialContext(ctx, p.address.Network(), p.address.String())
	if err != nil {
		return nil, err
	}
	p.wire.Store(&wire)
	return wire, nil
}

// DistrustError is returned for a binary that must not run.
type DistrustError struct{ Reason error }

func (e *DistrustError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e *DistrustError) Unwrap() error { return e.Reason }

// startError cleans up after a failed start and returns the error for it.
func (p *process) startError(ctx context.Context, err error) error {
	p.end()
	p.client.Kill()
	started := p.child.started()
	if started {
		<-p.child.done
	}
	p.removeSocket()
	switch {
	case errors.Is(err, errStartTimeout):
		return &slowError{p.path, p.settings.Calls.Deadlines().Start}
	case ctx.Err() != nil:
		return fmt.Errorf("start plugin %s: %w", p.path, err)
	case errors.As(err, new(*DistrustError)):
		return fmt.Errorf("start plugin %s: %w", p.path, err)
	case !started:
		if errors.Is(err, syscall.ENOEXEC) {
			err = fmt.Errorf("not an executable for %s/%s: %w", runtime.GOOS, runtime.GOARCH, err)
		}
		return fmt.Errorf("start plugin %s: %w", p.path, err)
	case !p.child.spoke.Load():
		return p.died("", calls.DuringStart)
	}
	// go-plugin explains at length; the first line has the cause.
	found, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("start plugin %s: wrong handshake: %.200s; it ended with %s", p.path, found, p.child.exitStatus())
}

// died returns the error that describes the end of the process; it is valid once the process has ended.
func (p *process) died(name, during string) *calls.DiedError {
	exit := p.child.exitStatus()
	switch reason := p.reason.Load(); {
	case reason != nil:
		exit += ", by the server because " + *reason
	case p.stopped.Load():
		exit += ", stopped by the server"
	}
	return &calls.DiedError{Plugin: name, Command: p.path, During: during, ExitStatus: exit, Stderr: p.output.Last()}
}

func (p *process) hasExited() bool {
	select {
	case <-p.child.exited:
		return true
	default:
		return false
	}
}

// isGone reports whether the process has exited or its connection is broken. The connection can break shortly before
// the exit is noticed; a call at that time would fail without having reached the plugin.
func (p *process) isGone(ctx context.Context) bool {
	if p.hasExited() {
		return true
	}
	wire := p.wire.Load()
	if wire == nil || !hungUp(*wire) || !p.child.endsWithin(endTime) && p.answers(ctx) {
		return false
	}
	p.killFor("its connection broke")
	return true
}

// answers reports whether the process is alive. Any reply counts, also the error that the method is unknown.
func (p *process) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.settings.Probe)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	switch status.Code(err) {
	case codes.OK, codes.Unimplemented, codes.NotFound:
		return true
	default:
		return false
	}
}

// drain waits until the lines that the process has written are handled, for a limited time: the process may write
// without a pause, or have stopped in the middle of a line, which is assumed when nothing moves for a second.
func (p *process) drain() {
	enough := time.Now().Add(drainTime)
	last := int64(-1)
	for quiet, stuck := 0, 0; quiet < 2 && stuck < 1000 && !p.hasExited() && time.Now().Before(enough); stuck++ {
		if p.child.silent() {
			quiet++
		} else {
			quiet = 0
		}
		time.Sleep(drainPause)
		if now := p.child.read.Load() + p.child.handled.Load(); now != last {
			last, stuck = now, 0
		}
	}
	p.output.Flush()
}

// removeSocket removes the socket of a process that has ended. Plugins built with go-plugin before 1.5 leave it in the
// folder for temporary files when they are killed.
func (p *process) removeSocket() {
	if p.address == nil || p.address.Network() != "unix" {
		return
	}
	path := p.address.String()
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		_ = os.Remove(path)
	}
}

// stop lets the process exit and kills it when that takes too long. It returns when the process has ended.
func (p *process) stop() {
	p.stopped.Store(true)
	asked := make(chan struct{})
	go func() { defer close(asked); p.client.Kill() }() // may hang as long as a stopped process does
	if !p.child.endsWithin(p.child.cleanUpTime(p.settings.Stop)) {
		p.end()
	}
	<-asked
}

// killFor kills a process that misbehaves; its exit status will have the reason.
func (p *process) killFor(reason string) {
	p.child.kill(func() { p.reason.CompareAndSwap(nil, &reason) })
}

// end kills the process at once.
func (p *process) end() { p.child.kill(nil) }
