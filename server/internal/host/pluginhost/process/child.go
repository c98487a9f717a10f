package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/output"
)

const (
	// drainTime bounds how long the output of a process is read after its end, or after that of a session. It takes that
	// long only if a process that left the process group holds the pipes, or writes without a pause.
	drainTime = 5 * time.Second
	// graceTime is the time that a process gets to exit by itself after a bad handshake.
	graceTime = 2 * time.Second
)

// maxHandshake is the longest handshake line, in bytes; with a certificate in it, it has about 1 KiB.
const maxHandshake = 16 << 10

// markVariable marks the processes that a plugin starts, so that those which leave its process group end with it, too.
const markVariable = "CLEAT_PLUGIN_PROCESS"

// child is an operating system process with its pipes. It implements go-plugin's runner, instead of go-plugin's own,
// for four reasons: the processes that it starts end with it, its stderr may have any content, its exit status is
// available even while a grandchild holds the pipes, and its stdout is read after the handshake.
type child struct {
	binary  *Binary
	enclose *Enclosure     // nil for none
	cmd     *exec.Cmd      // set by prepare
	mark    string         // the variable that its child processes inherit; set by prepare
	dir     string         // the private directory of an enclosed process; set by prepare
	memory  int            // limit in bytes; 0 or less means none
	output  *output.Output // of stderr, and of stdout after the handshake
	exited  chan struct{}  // closed when it has ended
	done    chan struct{}  // closed when its output is read as well
	exit    error          // of Wait; valid after exited
	stderr  *os.File       // the server's end of the pipe
	spoke   atomic.Bool    // it wrote a first line to stdout
	read    atomic.Int64   // bytes read from stderr
	handled atomic.Int64   // bytes of stderr that output has seen

	mu     sync.Mutex
	killed bool        // it must not run
	leader *os.Process // nil while there is nothing to kill
	pid    int         // 0 until it was started

	// What go-plugin reads: the handshake line and nothing else.
	toStdout, toStderr     *io.PipeWriter
	fromStdout, fromStderr *io.PipeReader
}

func newChild(b *Binary, o *output.Output) *child {
	c := &child{binary: b, output: o, exited: make(chan struct{}), done: make(chan struct{})}
	c.fromStdout, c.toStdout = io.Pipe()
	c.fromStderr, c.toStderr = io.Pipe()
	return c
}

// prepare makes the command. dir is a private directory that exists until the process has ended.
func (c *child) prepare(dir string, args, env []string) error {
	c.mark = markVariable + "=" + rand.Text()
	if c.enclose != nil { // its copy has the path of the binary
		c.cmd = &exec.Cmd{Path: c.binary.Path, Args: append([]string{c.binary.Path}, args...),
			SysProcAttr: processAttributes()}
		c.cmd.Env, c.dir = slices.Concat(env, c.enclose.Environment, []string{"TMPDIR=/tmp", c.mark}), dir
		return nil
	}
	cmd, err := c.binary.command(dir, args)
	if err != nil {
		return err
	}
	cmd.Env, cmd.SysProcAttr = slices.Concat(env, []string{c.mark}), processAttributes()
	c.cmd = cmd
	return nil
}

// Start runs the binary and returns as soon as it runs.
func (c *child) Start(context.Context) error {
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		c.abandon()
		return fmt.Errorf("open a pipe for its stdout: %w", err)
	}
	stderr, stderrWriter, err := os.Pipe()
	if err != nil {
		_, _ = stdout.Close(), stdoutWriter.Close()
		c.abandon()
		return fmt.Errorf("open a pipe for its stderr: %w", err)
	}
	c.stderr = stderr
	c.cmd.Stdout, c.cmd.Stderr = stdoutWriter, stderrWriter

	started := make(chan error)
	run := onThread
	if c.enclose != nil {
		run = onOwnThread
	}
	run(func() {
		err := c.fork()
		_, _ = stdoutWriter.Close(), stderrWriter.Close()
		if err != nil {
			_, _ = stdout.Close(), stderr.Close()
			c.abandon()
			started <- err
			return
		}
		var readers sync.WaitGroup
		readers.Go(func() { c.readStdout(stdout) })
		readers.Go(func() { output.EachLine(&countingReader{stderr, &c.read}, &c.handled, c.output.Line) })
		started <- nil

		c.exit = wait(c.cmd, c.disown) // for processes only: the pipes are files
		close(c.exited)
		c.killStray()
		deadline := time.Now().Add(drainTime)
		_, _ = stdout.SetReadDeadline(deadline), stderr.SetReadDeadline(deadline)
		readers.Wait()
		c.output.Flush()
		_, _ = stdout.Close(), stderr.Close()
		c.abandon()
	})
	return <-started
}

// killStray kills the processes that the process has started and that have left its group. The thread of an enclosed
// process has no /proc, so another thread reads it.
func (c *child) killStray() {
	var other sync.WaitGroup
	other.Go(func() { killMarked(c.mark) })
	other.Wait()
}

// onThread runs f in a goroutine that stays on its thread: the kernel ties "dies with its parent" to the thread that
// forked.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
	}()
}

// fork starts the binary, unless it was killed before.
func (c *child) fork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.closeInterpreter()
	if c.killed {
		return errors.New("stopped before it started")
	}
	if c.enclose != nil {
		if err := c.enclose.enter(c.binary, c.dir); err != nil {
			return err
		}
	}
	if err := c.cmd.Start(); err != nil {
		return c.binary.runError(err)
	}
	if c.memory > 0 {
		if err := limitMemory(c.cmd.Process.Pid, c.memory); err != nil {
			killProcessGroup(c.cmd.Process)
			_ = wait(c.cmd, func() {})
			return fmt.Errorf("limit its memory: %w", err)
		}
	}
	c.leader, c.pid = c.cmd.Process, c.cmd.Process.Pid
	return nil
}

// closeInterpreter closes the files that were opened for the command alone.
func (c *child) closeInterpreter() {
	for _, file := range c.cmd.ExtraFiles {
		if file != c.binary.File {
			_ = file.Close()
		}
	}
}

// kill kills the process and its group, or prevents its start. If the process runs, first is called before; it may be
// nil.
func (c *child) kill(first func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.leader == nil {
		return
	}
	if first != nil {
		first()
	}
	killProcessGroup(c.leader)
}

// disown kills the rest of the process group, whose id may be used again soon.
func (c *child) disown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	killProcessGroup(c.leader)
	c.leader = nil
}

// abandon closes what remains of a process that has ended, and the channels on which others wait.
func (c *child) abandon() {
	if c.enclose != nil {
		c.enclose.forget()
	}
	_, _ = c.toStdout.Close(), c.toStderr.Close()
	close(c.done)
}

// readStdout passes the first line to go-plugin and handles the others as log lines, so that a plugin that prints never
// blocks.
func (c *child) readStdout(stdout io.Reader) {
	first := true
	output.EachLine(stdout, nil, func(line []byte, cut bool) {
		if !first {
			c.output.Line(line, cut)
			return
		}
		first = false
		c.spoke.Store(true)
		// go-plugin fails on a longer line.
		line = line[:min(len(line), maxHandshake):min(len(line), maxHandshake)]
		_, _ = c.toStdout.Write(append(line, '\n'))
		_ = c.toStdout.Close()
	})
	_ = c.toStdout.Close()
}

// silent reports whether everything that the process has written so far is handled.
func (c *child) silent() bool {
	return pipeIsEmpty(c.stderr) && c.read.Load() == c.handled.Load()
}

// Wait waits until the process has ended and its output is read.
func (c *child) Wait(context.Context) error {
	<-c.done
	return c.exit
}

// Kill is called by go-plugin after a bad handshake, or if the process does not end soon. A process that is about to
// exit gets the time to do so, because its exit status is more informative.
func (c *child) Kill(context.Context) error {
	c.endsWithin(c.cleanUpTime(graceTime))
	c.kill(nil)
	return nil
}

// cleanUpTime returns how long the process may take to end, at least as long as usual.
func (c *child) cleanUpTime(usual time.Duration) time.Duration {
	if c.enclose == nil {
		return usual
	}
	return max(usual, c.enclose.CleanUp)
}

func (c *child) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// Stdout returns the handshake line.
func (c *child) Stdout() io.ReadCloser { return c.fromStdout }

// Stderr returns nothing: the lines go to output.
func (c *child) Stderr() io.ReadCloser { return c.fromStderr }

// Name returns the path of the binary.
func (c *child) Name() string { return c.binary.Path }

// Diagnose adds nothing: the exit status and the last lines are in the errors of this package.
func (c *child) Diagnose(context.Context) string { return "" }

// started reports whether there was a process.
func (c *child) started() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid != 0
}

// ID returns the process id. It is 0 for a process that could not be started, because go-plugin cleans up only after
// processes that have an id.
func (c *child) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.Itoa(c.pid)
}

// PluginToHost checks that the address in the handshake line is on this machine.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	switch network {
	case "unix":
		if c.enclose == nil {
			return network, address, nil
		}
		path, release, err := socketIn(c.dir, address)
		if err == nil {
			go func() { <-c.done; release() }()
		}
		return network, path, err
	case "tcp":
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return "", "", fmt.Errorf("address %q in its handshake: %w", address, err)
		}
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			return "", "", fmt.Errorf("address %q in its handshake is not on this machine, a plugin listens on 127.0.0.1 or a "+
				"unix socket", address)
		}
		return network, address, nil
	}
	return "", "", fmt.Errorf("network %q in its handshake is unknown, want unix or tcp", network)
}

// HostToPlugin returns the address unchanged: host and plugin share the machine.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// exitStatus describes the end of the process; it is valid after done.
func (c *child) exitStatus() string {
	if c.cmd.ProcessState == nil {
		return fmt.Sprintf("unknown (%v)", c.exit)
	}
	return c.cmd.ProcessState.String()
}

// countingReader counts the bytes that it reads.
type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n.Add(int64(n))
	return n, err
}
