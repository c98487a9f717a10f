package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/hostenv"
)

const (
	// endTime is how long a process may take to exit when it is asked to. Hosts wait for a few seconds and then kill it; a
	// test gives it more, because its machine may be busy.
	endTime = 20 * time.Second
	// patience is how long to wait for something that happens at once on an idle machine.
	patience = 10 * time.Second
	// maxLine is the longest line that is read, in bytes.
	maxLine = 64 << 10
)

// goroutineLine is the first line about each goroutine in the traceback of a Go program.
var goroutineLine = regexp.MustCompile(`^goroutine \d+ (gp=\S+ .*)?\[`)

// process is one run of a plugin's binary.
type process struct {
	cmd       *exec.Cmd
	offer     *offer
	handshake string
	conn      *grpc.ClientConn
	exited    chan struct{} // closed when the process has exited
	readers   sync.WaitGroup
	tail      tail
	// goroutines counts the goroutines in the traceback that a Go program writes to stderr on SIGQUIT.
	goroutines atomic.Int64
	sockets    string // directory of its sockets
	cancel     context.CancelFunc
}

// launch describes how a target is started.
type launch struct {
	args        []string // after those of the target itself
	environment []string // "NAME=value", added to the variables that a server passes on
	log         *output
}

// startProcess runs a binary as the server does, until it can be called: with the same part of the environment, in the
// working directory of the caller. An error says what the process did instead.
func startProcess(ctx context.Context, path string, l launch) (*process, error) {
	sockets, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, err
	}
	p := &process{exited: make(chan struct{}), sockets: sockets, cancel: func() {}}
	lines, err := p.launch(path, l)
	if err != nil {
		_ = os.RemoveAll(sockets)
		return nil, err
	}
	select {
	case p.handshake = <-lines:
	case <-p.exited:
		p.readers.Wait()
		select {
		case p.handshake = <-lines:
		default:
			p.stop()
			return nil, fmt.Errorf("it ended without a handshake line: %s", p.last())
		}
	case <-ctx.Done():
		p.stop()
		return nil, fmt.Errorf("it wrote no handshake line to stdout in time")
	}
	if err := p.connect(ctx, l.log); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// launch starts the process. The returned channel delivers the first line that it writes to stdout.
func (p *process) launch(path string, l launch) (<-chan string, error) {
	var err error
	if p.offer, err = newOffer(); err != nil {
		return nil, err
	}
	cmd, file, err := command(path, p.sockets, l.args)
	if err != nil {
		return nil, err
	}
	if file != nil {
		defer func() { _ = file.Close() }()
	}
	cookie := hostapi.Handshake()
	cmd.Env = append(hostenv.Environ(os.Environ(), l.environment...),
		cookie.MagicCookieKey+"="+cookie.MagicCookieValue,
		fmt.Sprintf("PLUGIN_PROTOCOL_VERSIONS=%d", cookie.ProtocolVersion),
		"PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000",
		"PLUGIN_UNIX_SOCKET_DIR="+p.sockets,
		certificateVariable+"="+p.offer.pem)
	cmd.SysProcAttr = ownGroup()
	p.cmd = cmd
	return p.run(l.log)
}

// run starts the process and reads its output. The channel delivers the first line of stdout.
func (p *process) run(log *output) (<-chan string, error) {
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, stderrEnd, err := os.Pipe()
	if err != nil {
		_, _ = stdout.Close(), stdoutEnd.Close()
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = stdoutEnd, stderrEnd
	err = p.cmd.Start()
	_, _ = stdoutEnd.Close(), stderrEnd.Close()
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return nil, err
	}
	first := make(chan string, 1)
	p.readers.Go(func() {
		handshake := true
		eachLine(stdout, func(line string) {
			if handshake {
				handshake = false
				first <- line
				return
			}
			log.printed(line)
		})
	})
	p.readers.Go(func() {
		eachLine(stderr, func(line string) {
			p.wrote(line, log)
		})
	})
	go func() {
		_ = p.cmd.Wait()
		// A child that outlives the process may hold the pipes open.
		deadline := time.Now().Add(patience)
		_, _ = stdout.SetReadDeadline(deadline), stderr.SetReadDeadline(deadline)
		close(p.exited)
		p.readers.Wait()
		_, _ = stdout.Close(), stderr.Close()
	}()
	return first, nil
}

// connect opens the connection to the address in the handshake line.
func (p *process) connect(ctx context.Context, log *output) error {
	network, address, certificate, err := parseHandshake(p.handshake)
	if err != nil {
		return err
	}
	config, err := p.offer.accepted(certificate)
	if err != nil {
		return err
	}
	p.conn, err = dial(config, func(ctx context.Context) (net.Conn, error) {
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

// parseHandshake parses the line that says where a plugin listens. The certificate is empty if the plugin serves without TLS.
func parseHandshake(line string) (network, address, certificate string, err error) {
	fields := strings.Split(line, "|")
	const want = `want "1|2|unix or tcp|ADDRESS|grpc|"`
	switch {
	case len(fields) < 5:
		return "", "", "", fmt.Errorf("the first line on stdout is %.200q, %s", line, want)
	case fields[0] != "1":
		return "", "", "", fmt.Errorf("the handshake has the core protocol %q: %.200q, %s", fields[0], line, want)
	case fields[1] != "2":
		return "", "", "", fmt.Errorf("the handshake has the protocol version %q: %.200q, %s", fields[1], line, want)
	case fields[2] != "unix" && fields[2] != "tcp":
		return "", "", "", fmt.Errorf("the handshake has the network %q: %.200q, %s", fields[2], line, want)
	case fields[4] != "grpc":
		return "", "", "", fmt.Errorf("the handshake has the protocol %q: %.200q, %s", fields[4], line, want)
	}
	if len(fields) > 5 {
		certificate = fields[5]
	}
	return fields[2], fields[3], certificate, nil
}

// readStdio reads the output that the process sends by go-plugin's stdio service, if it serves that. A process whose output
// is not read blocks.
func (p *process) readStdio(ctx context.Context, log *output) {
	stream, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil || stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	for {
		var message emptypb.Empty // its fields stay unknown
		if stream.RecvMsg(&message) != nil {
			return
		}
		channel, data := stdioData(message.ProtoReflect().GetUnknown())
		for line := range strings.SplitSeq(strings.TrimRight(string(data), "\n"), "\n") {
			if channel == 1 {
				log.printed(line)
			} else {
				p.wrote(line, log)
			}
		}
	}
}

// stdioData decodes go-plugin's message StdioData.
func stdioData(raw []byte) (channel uint64, data []byte) {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return channel, data
		}
		raw = raw[n:]
		switch {
		case number == 1 && kind == protowire.VarintType:
			channel, n = protowire.ConsumeVarint(raw)
		case number == 2 && kind == protowire.BytesType:
			data, n = protowire.ConsumeBytes(raw)
		default:
			n = protowire.ConsumeFieldValue(number, kind, raw)
		}
		if n < 0 {
			return channel, data
		}
		raw = raw[n:]
	}
	return channel, data
}

// wrote records a line of stderr. The traceback of a Go program is not recorded as log lines.
func (p *process) wrote(line string, log *output) {
	if goroutineLine.MatchString(line) {
		p.goroutines.Add(1)
	}
	if crashed := p.tail.add(line); !crashed {
		log.logged(line)
	}
}

// ended says whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// endsWithin waits for the end of the process and reports whether it came within d, and before ctx ended.
func (p *process) endsWithin(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.ended()
}

// last describes how the process ended, with its last lines on stderr.
func (p *process) last() string {
	said := "it ended with " + p.cmd.ProcessState.String()
	if lines := p.tail.last(); len(lines) > 0 {
		said += "; the last lines on stderr:\n" + strings.Join(lines, "\n")
	}
	return said
}

// kill ends the process group at once.
func (p *process) kill() {
	killGroup(p.cmd.Process)
	<-p.exited
}

// stop ends the process, closes the connection and removes the sockets.
func (p *process) stop() {
	p.cancel()
	p.kill()
	if p.conn != nil {
		_ = p.conn.Close()
	}
	p.readers.Wait()
	_ = os.RemoveAll(p.sockets)
	if network, address, _, err := parseHandshake(p.handshake); err == nil && network == "unix" {
		_ = os.Remove(address) // of a plugin that ignores PLUGIN_UNIX_SOCKET_DIR
	}
}

// shutdown asks the process to exit, as go-plugin does.
func (p *process) shutdown(ctx context.Context) error {
	return p.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
}

// eachLine calls handle for each line of r that is not empty. Long lines are cut.
func eachLine(r io.Reader, handle func(string)) {
	reader := bufio.NewReaderSize(r, maxLine)
	for {
		line, more, err := reader.ReadLine()
		if text := strings.TrimRight(string(line), "\r"); text != "" {
			handle(text)
		}
		for more && err == nil {
			_, more, err = reader.ReadLine()
		}
		if err != nil {
			return
		}
	}
}

// tail keeps the last lines of a process, or the first lines of the traceback of a Go program.
type tail struct {
	mu      sync.Mutex
	lines   []string
	crashed bool
}

// add records a line and reports whether it is part of a traceback.
func (t *tail) add(line string) (crashed bool) {
	const enough = 12
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.crashed && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "SIGQUIT: ")) {
		t.crashed, t.lines = true, nil
	}
	if len(t.lines) == enough {
		if t.crashed {
			return true
		}
		t.lines = t.lines[1:]
	}
	t.lines = append(t.lines, fmt.Sprintf("%.300s", line))
	return t.crashed
}

func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}

// output records what the processes of a target have written.
type output struct {
	mu       sync.Mutex
	onStdout string // the first line after a handshake
	lines    int    // lines on stderr
	odd      string // the first line on stderr that is not a log line
}

func (o *output) printed(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.onStdout == "" {
		o.onStdout = line
	}
}

func (o *output) logged(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines++
	if o.odd == "" && !isLogLine(line) {
		o.odd = line
	}
}

// isLogLine reports whether a line is a JSON object with a message and a level, which a host understands.
func isLogLine(line string) bool {
	var fields struct {
		Message *string `json:"@message"`
		Plain   *string `json:"msg"`
		Level   *string `json:"@level"`
		Other   *string `json:"level"`
	}
	err := json.Unmarshal([]byte(line), &fields)
	return err == nil && (fields.Message != nil || fields.Plain != nil) && (fields.Level != nil || fields.Other != nil)
}
