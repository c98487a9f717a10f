package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cleat-dev/cleat/server/test/world"
)

// Server is a running "cleat server".
type Server struct {
	cmd     *exec.Cmd
	log     string
	started time.Time
	done    chan struct{}
	err     error // valid when done is closed
}

// Serve starts the server and waits until it has validated the location.
func (s *Site) Serve(ctx context.Context, c *world.Client, flags ...string) (*Server, error) {
	v := &Server{log: filepath.Join(s.WorkDir, "server.log"), started: time.Now(), done: make(chan struct{})}
	out, err := os.Create(v.log)
	if err != nil {
		return nil, fmt.Errorf("create the server's log: %w", err)
	}
	defer out.Close()
	args := append([]string{"server", "--plugin-dir", s.PluginDir, "--metrics-address", "127.0.0.1:0"}, flags...)
	v.cmd = s.command(context.WithoutCancel(ctx), args...)
	v.cmd.Env = append(v.cmd.Env, "VELERO_SCRATCH_DIR="+s.WorkDir, "TMPDIR="+s.WorkDir)
	v.cmd.Stdout, v.cmd.Stderr = out, out
	if err := v.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() {
		v.err = v.cmd.Wait()
		close(v.done)
	}()
	if err := awaitLocation(ctx, c, v); err != nil {
		return nil, errors.Join(err, v.Stop())
	}
	return v, nil
}

const stopTimeout = 2 * time.Minute

// PID returns the id of the server's process.
func (v *Server) PID() int { return v.cmd.Process.Pid }

func (v *Server) ended() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// Stop terminates the server and waits for it. The timeout is longer than the server's own.
func (v *Server) Stop() error {
	_ = v.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-v.done:
	case <-time.After(stopTimeout):
		_ = v.cmd.Process.Kill()
		<-v.done
		return fmt.Errorf("the server did not exit within %s after SIGTERM", stopTimeout)
	}
	if v.err != nil {
		return fmt.Errorf("the server failed: %w; end of its log:\n%s", v.err, v.Tail())
	}
	return nil
}

// Tail returns the end of the server's log.
func (v *Server) Tail() string {
	f, err := os.Open(v.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const most = 4 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	b, _ := io.ReadAll(f)
	return string(b)
}
