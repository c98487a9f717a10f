package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/hostenv"
)

const (
	// EndTime is how long a process may take to exit when it is asked to. Hosts wait for a few seconds and then kill it; a
	// test gives it more, because its machine may be busy.
	EndTime = 2 * time.Minute
	// Patience is how long to wait for output of a process that has ended, or for the end of one whose connection is lost.
	// No rule depends on it.
	Patience = 10 * time.Second
	// maxLine is the longest line that is read, in bytes.
	maxLine = 64 << 10
)

// goroutineLine is the first line about each goroutine in the traceback of a Go program.
var goroutineLine = regexp.MustCompile(`^goroutine \d+ (gp=\S+ .*)?\[`)

// Process is one run of a plugin's binary.
type Process struct {
	Cmd       *exec.Cmd
	offer     *offer
	handshake string
	Conn      *grpc.ClientConn
	exited    chan struct{} // closed when the process has exited
	Readers   sync.WaitGroup
	tail      tail
	// Goroutines counts the goroutines in the traceback that a Go program writes to stderr on SIGQUIT.
	Goroutines atomic.Int64
	sockets    string // directory of its sockets
	cancel     context.CancelFunc
}

// Launch describes how a target is started.
type Launch struct {
	Args        []string // after those of the target itself
	Environment []string // "NAME=value", added to the environment of the caller
	Log         *Output
}

// StartProcess runs a binary as the server does, until it can be called: with the environment of the caller, in the
// working directory of the caller. An error says what the process did instead.
func StartProcess(ctx context.Context, path string, l Launch) (*Process, error) {
	sockets, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, err
	}
	p := &Process{exited: make(chan struct{}), sockets: sockets, cancel: func() {}}
	lines, err := p.launch(path, l)
	if err != nil {
		_ = os.RemoveAll(sockets)
		return nil, err
	}
	select {
	case p.handshake = <-lines:
	case <-p.exited:
		p.Readers.Wait()
		select {
		case p.handshake = <-lines:
		default:
			p.Stop()
			return nil, fmt.Errorf("it ended without a handshake line: %s", p.Last())
		}
	case <-ctx.Done():
		p.Stop()
		return nil, fmt.Errorf("it wrote no handshake line to stdout in time")
	}
	if err := p.connect(ctx, l.Log); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// launch starts the process. The returned channel delivers the first line that it writes to stdout.
func (p *Process) launch(path string, l Launch) (<-chan string, error) {
	var err error
	if p.offer, err = newOffer(); err != nil {
		return nil, err
	}
	cmd, file, err := command(path, p.sockets, l.Args)
	if err != nil {
		return nil, err
	}
	if file != nil {
		defer func() { _ = file.Close() }()
	}
	cookie := hostapi.Handshake()
	cmd.Env = append(hostenv.Environ(os.Environ(), l.Environment...),
		cookie.MagicCookieKey+"="+cookie.MagicCookieValue,
		fmt.Sprintf("PLUGIN_PROTOCOL_VERSIONS=%d", cookie.ProtocolVersion),
		"PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000",
		"PLUGIN_UNIX_SOCKET_DIR="+p.sockets,
		certificateVariable+"="+p.offer.pem)
	cmd.SysProcAttr = OwnGroup()
	p.Cmd = cmd
	return p.run(l.Log)
}

// run starts the process and reads its output. The channel delivers the first line of stdout.
func (p *Process) run(log *Output) (<-chan string, error) {
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, stderrEnd, err := os.Pipe()
	if err != nil {
		_, _ = stdout.Close(), stdoutEnd.Close()
		return nil, err
	}
	p.Cmd.Stdout, p.Cmd.Stderr = stdoutEnd, stderrEnd
	err = p.Cmd.Start()
	_, _ = stdoutEnd.Close(), stderrEnd.Close()
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return nil, err
	}
	first := make(chan string, 1)
	p.Readers.Go(func() {
		handshake := true
		eachLine(stdout, func(line string, _ bool) {
			if handshake {
				handshake = false
				first <- line
				return
			}
			log.printed(line)
		})
	})
	p.Readers.Go(func() {
		eachLine(stderr, func(line string, cut bool) { p.wrote(line, cut, log) })
	})
	go func() {
		_ = p.Cmd.Wait()
		// A child that outlives the process may hold the pipes open.
		deadline := time.Now().Add(Patience)
		_, _ = stdout.SetReadDeadline(deadline), stderr.SetReadDeadline(deadline)
		close(p.exited)
		p.Readers.Wait()
		_, _ = stdout.Close(), stderr.Close()
	}()
	return first, nil
}

// connect opens the connection to the address in the handshake line.
func (p *Process) connect(ctx context.Context, log *Output) error {
	network, address, certificate, err := parseHandshake(p.handshake)
	if err != nil {
		return err
	}
	config, err := p.offer.accepted(certificate)
	if err != nil {
		return err
	}
	p.Conn, err = Dial(config, func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, address)
	})
	if err != nil {
		return err
	}
	ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx)) // for the life of the process
	go p.readStdio(ctx, log)
	return nil
}

// wrote records a line of stderr. The traceback of a Go program is not recorded as log lines, nor is a line that was
// cut, which is not JSON any more.
func (p *Process) wrote(line string, cut bool, log *Output) {
	if goroutineLine.MatchString(line) {
		p.Goroutines.Add(1)
	}
	if crashed := p.tail.add(line); !crashed && !cut {
		log.logged(line)
	}
}

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// EndsWithin waits for the end of the process and reports whether it came within d, and before ctx ended.
func (p *Process) EndsWithin(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.Ended()
}

// Last describes how the process ended, with its last lines on stderr.
func (p *Process) Last() string {
	said := "it ended with " + p.Cmd.ProcessState.String()
	if lines := p.tail.last(); len(lines) > 0 {
		said += "; the last lines on stderr:\n" + strings.Join(lines, "\n")
	}
	return said
}

// kill ends the process group at once.
func (p *Process) kill() {
	KillGroup(p.Cmd.Process)
	<-p.exited
}

// Stop ends the process, closes the connection and removes the sockets.
func (p *Process) Stop() {
	p.cancel()
	p.kill()
	if p.Conn != nil {
		_ = p.Conn.Close()
	}
	p.Readers.Wait()
	_ = os.RemoveAll(p.sockets)
	if network, address, _, err := parseHandshake(p.handshake); err == nil && network == "unix" {
		_ = os.Remove(address) // of a plugin that ignores PLUGIN_UNIX_SOCKET_DIR
	}
}

// Shutdown asks the process to exit, as go-plugin does.
func (p *Process) Shutdown(ctx context.Context) error {
	return p.Conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
}
