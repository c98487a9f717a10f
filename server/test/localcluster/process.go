package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// stopGrace is the time that most children have to stop before they are killed.
const stopGrace = 10 * time.Second

// spawner starts children from one thread, which ends when it is closed. The
// kernel kills a child when the thread that started it ends.
type spawner struct{ work chan func() }

func newSpawner() *spawner {
	s := &spawner{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // not unlocked, so the thread ends with this function
		for do := range s.work {
			do()
		}
	}()
	return s
}

// close kills the children that are still running.
func (s *spawner) close() { close(s.work) }

// process is a child process, which may have exited.
type process struct {
	name     string
	log      string
	cmd      *exec.Cmd
	done     chan struct{} // closed when it has exited
	err      error         // the result of Wait, valid when done is closed
	expected atomic.Bool   // set when it is stopped or killed
}

// start starts a program and appends its output to the file log.
func (s *spawner) start(name, log, path string, args, env []string, attributes *syscall.SysProcAttr) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer out.Close()
	p := &process{name: name, log: log, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = attributes
	started := make(chan error)
	s.work <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop terminates the child, kills it if it takes longer than grace, and waits
// until it has exited.
func (p *process) stop(grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return p.kill()
	}
}

// kill kills the child and waits until it has exited.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

func (p *process) signal(sig os.Signal) error {
	p.expected.Store(true)
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	return nil
}

// endOfLog returns the end of the child's log, for an error.
func (p *process) endOfLog() string {
	text, err := tail(p.log, 15)
	if err != nil {
		return fmt.Sprintf("(its log cannot be read: %v)", err)
	}
	if text == "" {
		return "(its log is empty)"
	}
	return "the end of its log:\n" + text
}

// tail returns the last lines of a file, at most 16 KiB of them.
func tail(path string, lines int) (string, error) {
	const most = 16 << 10
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-most)
	data, err := io.ReadAll(io.NewSectionReader(file, from, most))
	if err != nil {
		return "", err
	}
	all := strings.Split(string(bytes.TrimRight(data, "\n")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n"), nil
}
