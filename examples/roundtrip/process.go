package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// cleat runs the binary under test as a user does.
type cleat struct{ options Options }

func (c *cleat) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.options.Cleat, append(args, "--kubeconfig", c.options.Kubeconfig, "--namespace", Namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.options.Kubeconfig)
	return cmd
}

// run executes one CLI command; its output is shown only on a terminal or in the error.
func (c *cleat) run(ctx context.Context, args ...string) error {
	cmd := c.command(ctx, args...)
	if c.options.Terminal {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("cleat %s: %w", strings.Join(args, " "), err)
		}
		return nil
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cleat %s: %w:\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// server is a running "cleat server".
type server struct {
	cmd  *exec.Cmd
	log  string
	done chan error
}

// serve starts the server; it is ready when the location is found available.
func (c *cleat) serve(ctx context.Context) (*server, error) {
	s := &server{log: filepath.Join(c.options.WorkDir, "server.log"), done: make(chan error, 1)}
	out, err := os.Create(s.log)
	if err != nil {
		return nil, fmt.Errorf("log of the server: %w", err)
	}
	defer out.Close()
	s.cmd = c.command(context.WithoutCancel(ctx), "server", "--plugin-dir", c.options.PluginDir, "--metrics-address", "127.0.0.1:0")
	s.cmd.Env = append(s.cmd.Env, "VELERO_SCRATCH_DIR="+c.options.WorkDir, "TMPDIR="+c.options.WorkDir)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() { s.done <- s.cmd.Wait() }()
	return s, nil
}

// stop asks the server to end and gives it ten seconds.
func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.done:
		var exit *exec.ExitError
		if errors.As(err, &exit) && !exit.Exited() {
			return fmt.Errorf("the server ended badly: %w; its log ends:\n%s", err, s.tail())
		}
		return nil
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.done
		return errors.New("the server did not end within 10s of being asked to")
	}
}

// tail is the end of the server's log.
func (s *server) tail() string {
	f, err := os.Open(s.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 4<<10 {
		_, _ = f.Seek(-4<<10, io.SeekEnd)
	}
	b, _ := io.ReadAll(f)
	return string(b)
}
