package kubelet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// The limits of a real kubelet.
const (
	idleTimeout   = 4 * time.Hour
	createTimeout = 30 * time.Second
)

// handler serves /exec/{namespace}/{pod}/{container}.
func (k *Kubelet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in := &container{kubelet: k, namespace: r.PathValue("namespace")}
		remotecommand.ServeExec(w, r, in, r.PathValue("pod"), "", r.PathValue("container"), r.Form["command"], options,
			idleTimeout, createTimeout, remotecommand.SupportedStreamingProtocols)
	})
	return mux
}

// container runs the commands of one request.
type container struct {
	kubelet   *Kubelet
	namespace string
}

// ExecInContainer implements remotecommand.Executor. As with a container runtime, it returns when the command has
// exited and its output is closed, also by its remaining child processes.
func (c *container) ExecInContainer(
	ctx context.Context, pod, _, name string, command []string, in io.Reader, out, errs io.WriteCloser, _ bool,
	_ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	dir := c.kubelet.Dir(c.namespace, pod)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, in, out, errs
	cmd.Env = append(os.Environ(), "POD_NAMESPACE="+c.namespace, "POD_NAME="+pod, "CONTAINER="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.kubelet.execs.start(cmd); err != nil {
		return err
	}
	defer c.kubelet.execs.done(cmd)
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

// execs are the running commands, and the commands with remaining child processes.
type execs struct {
	mu     sync.Mutex
	killed bool
	cmds   map[*exec.Cmd]struct{}
}

func (e *execs) start(cmd *exec.Cmd) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.killed {
		return errors.New("the kubelet has stopped")
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if e.cmds == nil {
		e.cmds = map[*exec.Cmd]struct{}{}
	}
	e.cmds[cmd] = struct{}{}
	return nil
}

// done is called when a command has exited. A command with remaining child processes stays, until they are killed with
// it.
func (e *execs) done(cmd *exec.Cmd) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH) {
		delete(e.cmds, cmd)
	}
}

// kill ends all commands and their remaining child processes.
func (e *execs) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.killed = true
	for cmd := range e.cmds {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have exited meanwhile
	}
}
