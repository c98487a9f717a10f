package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Attributes adds the attributes of the first process of a node to a.
func Attributes(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	a.Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
		syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	return a
}

// Main is the first process of a node, which ends with ctx, with the first of its programs that ends, or because it is
// killed. The argument is the path of the Config.
func Main(ctx context.Context, path string) error {
	goOn := context.AfterFunc(ctx, func() { os.Exit(0) }) // the kernel kills the others
	defer goOn()
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n := node{programs: map[int]string{}}
	if err := json.Unmarshal(content, &n.Config); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := n.prepare(); err != nil || n.TryOnly {
		return err
	}
	if err := n.start("containerd", filepath.Join(n.Packages, "containerd/usr/bin/containerd"), "--config",
		n.in("containerd.toml")); err != nil {
		return err
	}
	if err := n.awaitContainerd(); err != nil {
		return err
	}
	if err := n.run("ctr", n.Ctr(), "--address", n.Containerd(), "--namespace", "k8s.io", "images", "import",
		n.in("pause.tar")); err != nil {
		return err
	}
	if err := n.start("kubelet", n.Kubelet, n.kubeletArgs()...); err != nil {
		return err
	}
	return n.reap(0)
}

// node is the running node.
type node struct {
	Config
	programs map[int]string // programs that run as long as the node, by process
}

// prepare performs all steps for which a node needs the machine's permission.
func (n *node) prepare() error {
	if err := n.mountAll(); err != nil {
		return err
	}
	if err := addAddresses(ServiceAddress, Address); err != nil {
		return err
	}
	if err := machineGroups().add(n.group()); err != nil {
		return err
	}
	go machineGroups().share(n.group()) // ends with the process
	messages, err := os.Open("/dev/kmsg")
	if err != nil {
		return fmt.Errorf("the kubelet reads the messages of the kernel: %w", err)
	}
	messages.Close()
	snapshotter, err := n.snapshotter()
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.in("containerd.toml"), []byte(n.containerdConfig(snapshotter)), 0o600); err != nil {
		return err
	}
	for _, forward := range n.Forwards {
		listener, err := net.Listen("tcp", forward.Address)
		if err != nil {
			return err
		}
		go Forward(listener, "unix", forward.Socket)
	}
	proxy, err := net.Listen("unix", n.Proxy())
	if err != nil {
		return err
	}
	go func() { _ = serveProxy(proxy) }() // ends with the process
	return nil
}

// start starts a program that runs as long as the node.
func (n *node) start(name, path string, args ...string) error {
	pid, err := n.fork(name, path, args...)
	if err != nil {
		return err
	}
	n.programs[pid] = name
	return nil
}

// run runs a program to its end.
func (n *node) run(name, path string, args ...string) error {
	pid, err := n.fork(name, path, args...)
	if err != nil {
		return err
	}
	return n.reap(pid)
}

func (n *node) fork(name, path string, args ...string) (int, error) {
	log, err := os.OpenFile(n.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	found, err := libraries(n.Packages)
	if err != nil {
		return 0, err
	}
	// Programs find each other and those of the machine in PATH.
	env := []string{"LD_LIBRARY_PATH=" + found, "HOME=" + n.Dir, "TMPDIR=" + n.Dir, "PATH=" + strings.Join([]string{
		filepath.Join(n.Packages, "containerd/usr/bin"), filepath.Join(n.Packages, "runc/usr/sbin"), "/usr/local/sbin",
		"/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
	}, ":")}
	pid, err := syscall.ForkExec(path, append([]string{path}, args...), &syscall.ProcAttr{
		Env: env, Dir: n.Dir, Files: []uintptr{0, log.Fd(), log.Fd()}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", name, err)
	}
	return pid, nil
}

func (n *node) log(name string) string { return filepath.Join(n.Logs, "node-"+name+".log") }

// reap waits for the end of a process or, without one, forever. A process whose parent has ended becomes a child of
// the first process, which has to wait for it, too. The end of a program that has to run is an error.
func (n *node) reap(wanted int) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for processes: %w", err)
		}
		switch name := n.programs[pid]; {
		case name != "":
			return fmt.Errorf("%s has ended, %s; the end of its log:\n%s", name, describe(status), n.endOfLog(name))
		case pid == wanted && status.ExitStatus() != 0:
			return fmt.Errorf("a command has failed, %s; the end of its log:\n%s", describe(status), n.endOfLog("ctr"))
		case pid == wanted:
			return nil
		}
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "killed by the signal " + status.Signal().String()
	}
	return fmt.Sprintf("with exit status %d", status.ExitStatus())
}

// endOfLog returns the last lines of a program's log.
func (n *node) endOfLog(name string) string {
	const lines = 12
	content, err := os.ReadFile(n.log(name))
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// awaitContainerd waits until containerd accepts connections. If containerd ends before, that is an error.
func (n *node) awaitContainerd() error {
	for {
		conn, err := net.Dial("unix", n.Containerd())
		if err == nil {
			return conn.Close()
		}
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == nil && n.programs[pid] != "" {
			return fmt.Errorf("containerd has ended, %s; the end of its log:\n%s", describe(status), n.endOfLog("containerd"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
