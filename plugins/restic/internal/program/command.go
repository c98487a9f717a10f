package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// grace is how long restic may take to clean up after an interrupt: it removes its lock from the storage.
const grace = 30 * time.Second

// Command is one command of restic on a repository.
type Command struct {
	Args     []string // with the location of the repository; never a secret
	Env      []string // beside Environment
	Dir      string   // empty for the current directory
	Password []byte
	Stdin    *os.File  // nil for none
	Stdout   io.Writer // nil if Line gets the output
	// Line gets each line of the output, and of the errors; calls come one at a time. It may be nil.
	Line func(line []byte)
	// Beat is called every Every while restic works. It is not called while restic is stopped or hangs, that is, uses
	// neither processor nor input and output. It may be nil.
	Beat  func(usage Usage)
	Every time.Duration
}

// Environment returns the variables that restic gets: those of this process without settings of restic.
func Environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "RESTIC_") {
			kept = append(kept, variable)
		}
	}
	return append(kept, "RESTIC_PROGRESS_FPS=1")
}

// Run runs a command until it has ended. If ctx ends, restic gets an interrupt, and is killed if it does not end soon.
// The error of a command that fails is an *Error, or that of ctx.
func (p *Program) Run(ctx context.Context, c Command) error {
	password, forget, err := passwordFile(c.Password)
	if err != nil {
		return err
	}
	defer forget()
	cmd := exec.CommandContext(ctx, p.path, append([]string{"--password-file", password}, c.Args...)...)
	cmd.Dir, cmd.Env = c.Dir, append(Environment(), c.Env...)
	cmd.SysProcAttr, cmd.WaitDelay = attributes(), grace
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	lines := &lineReader{line: c.Line}
	stdout, stderr := &splitter{to: lines}, &splitter{to: lines, keep: true}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start restic: %w", err)
	}
	stop := beat(cmd.Process.Pid, c)
	err = cmd.Wait()
	stop()
	stdout.flush()
	stderr.flush()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return fmt.Errorf("restic %s: %w", name(c.Args), cause)
	}
	if err != nil {
		return &Error{Command: name(c.Args), Code: cmd.ProcessState.ExitCode(), State: cmd.ProcessState.String(),
			Lines: lines.last, Err: err}
	}
	return nil
}

// name returns the name of restic's command, which is the first argument that is no flag.
func name(args []string) string {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return ""
}

// maxPassword is the size in bytes that every pipe takes without a reader.
const maxPassword = 4096

func checkPassword(password []byte) error {
	if len(password) == 0 || len(password) > maxPassword || bytes.ContainsAny(password, "\r\n\x00") {
		return errors.New("the password of the repository must be one line of 1 to 4096 bytes")
	}
	return nil
}

// beat calls Beat while a process works. The function that it returns stops that.
func beat(pid int, c Command) func() {
	if c.Beat == nil {
		return func() {}
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(c.Every)
		defer ticker.Stop()
		var last Usage
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if now, known := usage(pid); !known || now != last {
					last = now
					c.Beat(now)
				}
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
	}
}

// Usage is what a process has used since it began.
type Usage struct {
	Processor uint64 // ticks or ns
	Read      int64  // bytes
	Written   int64  // bytes, to files and connections
}
