package velero

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// Site is an installation of Velero: a namespace of a cluster.
type Site struct {
	*Programs
	Kubeconfig, Namespace string
	WorkDir               string   // a directory for its files; each site has its own
	Environment           []string // of its processes, in addition to that of the test
}

// Command returns a command of Velero's command line.
func (s *Site) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Velero, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "VELERO_NAMESPACE="+s.Namespace, "HOME="+s.WorkDir,
		"TMPDIR="+s.WorkDir,
		"VELERO_SCRATCH_DIR="+s.WorkDir)
	cmd.Env = append(cmd.Env, s.Environment...)
	return cmd
}

// Run runs a command of Velero's command line, and returns its output.
func (s *Site) Run(ctx context.Context, args ...string) (string, error) {
	out, err := s.Command(ctx, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("velero %s: %w:\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Serve starts a server that serves no address, with the plugins of dir.
func (s *Site) Serve(dir string, flags ...string) (*Server, error) {
	args := append([]string{"server", "--plugin-dir", dir, "--metrics-address", "127.0.0.1:0", "--profiler-address", "",
		"--namespace", s.Namespace, "--kubeconfig", s.Kubeconfig}, flags...)
	v := &Server{cmd: s.Command(context.Background(), args...), done: make(chan struct{})}
	v.cmd.Stdout, v.cmd.Stderr = &v.log, &v.log
	v.cmd.Args[0] = filepath.Join(filepath.Dir(s.Velero), "velero") // it starts itself by this name to run its own plugins
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}         // for Kill
	if err := v.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Velero's server: %w", err)
	}
	go func() {
		v.err = v.cmd.Wait()
		close(v.done)
	}()
	return v, nil
}

// Server is a process of Velero's server.
type Server struct {
	cmd  *exec.Cmd
	log  programs.Output
	done chan struct{}
	err  error // valid when done is closed
}

// PID returns the id of the process.
func (v *Server) PID() int { return v.cmd.Process.Pid }

// Log returns the log of the server.
func (v *Server) Log() string { return v.log.String() }

// Exited reports whether the process has exited.
func (v *Server) Exited() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// stopTimeout is only reached on a machine under heavy load.
const stopTimeout = 2 * time.Minute

// Stop ends the server like Kubernetes, and waits for it.
func (v *Server) Stop() error {
	_ = v.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-v.done:
		return nil // its exit code has no meaning
	case <-time.After(stopTimeout):
		v.Kill()
		return errors.New("Velero's server did not end after SIGTERM") //nolint:staticcheck // a name
	}
}

// Kill kills the server and its plugins, which would not end by themselves, as at the end of a container. It waits for
// the server.
func (v *Server) Kill() {
	_ = syscall.Kill(-v.PID(), syscall.SIGKILL) // there may be no process left
	<-v.done
}
