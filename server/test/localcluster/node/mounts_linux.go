package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// covered are the directories of the machine over which the node mounts its own.
var covered = []string{"/run", "/var/lib", "/var/log"}

// parameters are the kernel parameters that the kubelet would set for the whole machine. It reads these values
// instead.
var parameters = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// mountAll makes the mounts of the node. Mounts of pods propagate inside of it, but not to the machine.
func (c Config) mountAll() error {
	steps := []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"none", "/", "", syscall.MS_REC | syscall.MS_SHARED},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
	}
	for _, step := range steps {
		if err := mount(step.source, step.target, step.kind, step.flags); err != nil {
			return err
		}
	}
	for _, dir := range covered {
		if err := mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/run/parameters", "/run/lock", "/var/lib/kubelet", "/var/log/containers"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mount(c.Kubelets(), "/var/lib/kubelet", "", syscall.MS_BIND); err != nil {
		return err
	}
	for _, propagation := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		// Inside only, not to the original directory.
		if err := mount("none", "/var/lib/kubelet", "", propagation); err != nil {
			return err
		}
	}
	for name, value := range parameters {
		path := filepath.Join("/run/parameters", filepath.Base(name))
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			return err
		}
		if err := mount(path, filepath.Join("/proc/sys", name), "", syscall.MS_BIND); err != nil &&
			!errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// snapshotter returns "overlayfs" if the file system of the node's directory supports that, or else "native", which
// copies.
func (c Config) snapshotter() (string, error) {
	work := c.in("try-overlay")
	var dirs [4]string
	for i, name := range []string{"lower", "upper", "work", "merged"} {
		dirs[i] = filepath.Join(work, name)
		if err := os.MkdirAll(dirs[i], 0o755); err != nil {
			return "", err
		}
	}
	defer os.RemoveAll(work)
	if err := syscall.Mount("overlay", dirs[3], "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dirs[0],
		dirs[1], dirs[2])); err != nil {
		return "native", nil
	}
	return "overlayfs", syscall.Unmount(dirs[3], 0)
}

func mount(source, target, kind string, flags uintptr) error {
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	return nil
}
