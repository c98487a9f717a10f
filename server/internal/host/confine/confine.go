package confine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

const (
	// variable passes the state to the started command. It is not in the environment of the programs that the command
	// starts.
	variable = "CLEAT_CONFINE"
	// path is the only other variable of the environment, beside TMPDIR.
	path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// drain is how long the output is read after the command has ended.
	drain = 5 * time.Second
)

// Command is a command of this program that runs untrusted programs. It calls Enter before anything else.
type Command struct {
	Args    []string
	Files   string // absolute path of the directory with the programs
	Most    int    // bytes that it may print
	Verbose io.Writer
}

// Confined describes the confinement that a process has entered.
type Confined struct {
	Files string   // the directory with the programs, as this process sees it
	Notes []string // confinement that the kernel has refused
}

// state is passed from stage to stage of a confined command.
type state struct {
	Confined
	Largest  int64  // bytes of the largest program, which is started from a copy in memory
	Temp     string // directory for temporary files, and working directory
	Isolated bool   // in namespaces of its own
	Entered  bool   // the rights are given up
}

func (s *state) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// environment returns the whole environment of a stage.
func (s *state) environment() ([]string, error) {
	text, err := json.Marshal(s)
	return []string{path, "TMPDIR=" + s.Temp, variable + "=" + string(text)}, err
}

// Output runs the command and returns its output. Where the kernel has namespaces, all processes that it started have
// ended.
func (c Command) Output(ctx context.Context) (_ []byte, err error) {
	temp, err := os.MkdirTemp("", "confined-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for programs without rights: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if temp, err = filepath.Abs(temp); err != nil {
		return nil, err
	}
	s := &state{Confined: Confined{Files: c.Files}, Temp: temp}
	if s.Largest, err = largest(c.Files); err != nil {
		return nil, err
	}
	if err := s.giveAway(temp); err != nil {
		return nil, err
	}
	// The kernel ties "dies with its parent" to the thread that forks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, problems := &limited{most: c.Most}, &tail{}
	cmd, alive, err := c.start(ctx, s, out, problems)
	if err != nil {
		return nil, fmt.Errorf("start %s without rights: %w", filepath.Base(os.Args[0]), err)
	}
	defer alive.Close()
	switch err := cmd.Wait(); {
	case out.full:
		return nil, fmt.Errorf("it printed more than %d bytes", c.Most)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(problems.text))
	}
	return out.Bytes(), nil
}

// largest returns the number of bytes of the largest file below a directory.
func largest(dir string) (most int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			most = max(most, info.Size())
		}
		return err
	})
	return most, err
}

// start starts the command in namespaces of its own, or without them if the kernel refuses that. The command ends when
// alive is closed.
func (c Command) start(
	ctx context.Context, s *state, out, problems io.Writer,
) (cmd *exec.Cmd, alive io.Closer, err error) {
	for _, s.Isolated = range []bool{true, false} {
		cmd = exec.CommandContext(ctx, self(), c.Args...)
		if cmd.Env, err = s.environment(); err != nil {
			return nil, nil, err
		}
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, problems, drain
		if c.Verbose != nil {
			cmd.Stderr = io.MultiWriter(c.Verbose, problems)
		}
		if alive, err = cmd.StdinPipe(); err != nil {
			return nil, nil, err
		}
		s.isolate(cmd)
		if err = cmd.Start(); err == nil || !s.Isolated {
			return cmd, alive, err
		}
		s.note("the kernel refuses namespaces, so the programs had the network and saw other processes: %v", err)
	}
	return nil, nil, err
}

// Enter gives up the rights of this process, which Output has started. On Linux it does so in a first stage, which ends
// by running this program anew with the same arguments, and returns in the second one.
func Enter() (*Confined, error) {
	var s state
	if err := json.Unmarshal([]byte(os.Getenv(variable)), &s); err != nil {
		return nil, errors.New("only this program itself starts this command")
	}
	if !s.Entered {
		if err := s.enter(); err != nil {
			return nil, fmt.Errorf("give up the rights of the process: %w", err)
		}
	}
	if err := os.Unsetenv(variable); err != nil {
		return nil, err
	}
	go func() { // until the caller ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	return &s.Confined, nil
}

// limited is a buffer that takes no more than most bytes.
type limited struct {
	bytes.Buffer
	most int
	full bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.most {
		l.full = true
		return 0, io.ErrShortWrite
	}
	return l.Buffer.Write(p)
}

// tail keeps the end of its input.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.text = append(t.text, p[max(0, len(p)-most):]...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}
