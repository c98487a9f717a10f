package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// groupSuffix ends the names of the control groups of nodes, by which Sweep finds them.
const groupSuffix = ".node"

// lockedV1 is the controller whose group is locked. It is created first and removed last.
const lockedV1 = "blkio"

var (
	controllersV1 = []string{lockedV1, "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"}
	requiredV2    = []string{"cpu", "cpuset", "memory", "pids"}
	// optionalV2 are controllers that the groups of the kubelet and runc must have if they exist on the machine.
	optionalV2 = []string{"hugetlb", "io"}
)

// cgroups are the mounted control groups: one hierarchy (version 2) or one per controller (version 1).
type cgroups struct{ root string }

func machineGroups() cgroups { return cgroups{"/sys/fs/cgroup"} }

func (c cgroups) isV2() bool {
	_, err := os.Stat(filepath.Join(c.root, "cgroup.controllers"))
	return err == nil
}

// locked returns the directory of the group whose lock shows that a node is running.
func (c cgroups) locked(name string) string {
	if c.isV2() {
		return filepath.Join(c.root, name)
	}
	return filepath.Join(c.root, lockedV1, name)
}

// add makes the control groups below which the kubelet makes those of pods. They exist as long as this process.
func (c cgroups) add(name string) error {
	if c.isV2() {
		if err := c.enable(); err != nil {
			return err
		}
		return hold(c.locked(name))
	}
	for _, controller := range controllersV1 {
		if _, err := os.Stat(filepath.Join(c.root, controller, "cgroup.procs")); err != nil {
			return fmt.Errorf("control groups have no controller %s: %w", controller, err)
		}
	}
	if err := hold(c.locked(name)); err != nil {
		return err
	}
	hierarchies, err := filepath.Glob(filepath.Join(c.root, "*", "cgroup.procs")) // systemd has one without a controller
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if err := os.MkdirAll(filepath.Join(filepath.Dir(hierarchy), name), 0o755); err != nil {
			return err
		}
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // a new group has none, and takes no process
		content, err := os.ReadFile(filepath.Join(c.root, "cpuset", file))
		if err == nil {
			err = os.WriteFile(filepath.Join(c.root, "cpuset", name, file), content, 0o600)
		}
		if err != nil {
			return fmt.Errorf("configuring a control group: %w", err)
		}
	}
	return nil
}

// share gives pods the processor as other processes have it, as long as this process runs. The kubelet gives pods without
// requests the smallest share there is, and writes it again each minute: beside busy processes they would stand still.
func (c cgroups) share(name string) {
	dir, file, node, class := filepath.Join(c.root, "cpu", name), "cpu.shares", "16384", "1024"
	if c.isV2() {
		dir, file, node, class = filepath.Join(c.root, name), "cpu.weight", "1600", "100"
	}
	for ; ; time.Sleep(time.Second) {
		_ = os.WriteFile(filepath.Join(dir, file), []byte(node), 0o600)
		for _, of := range []string{"besteffort", "burstable"} { // which are not there before the kubelet has made them
			_ = os.WriteFile(filepath.Join(dir, "kubepods", of, file), []byte(class), 0o600)
		}
	}
}

// enable makes controllers of version 2 available to control groups. The kubelet refuses a group that lacks a
// controller of the machine.
func (c cgroups) enable() error {
	read := func(name string) ([]string, error) {
		text, err := os.ReadFile(filepath.Join(c.root, name))
		return strings.Fields(string(text)), err
	}
	available, errAvailable := read("cgroup.controllers")
	enabled, errEnabled := read("cgroup.subtree_control")
	if err := errors.Join(errAvailable, errEnabled); err != nil {
		return err
	}
	var wanted []string
	for _, controller := range slices.Concat(requiredV2, optionalV2) {
		switch has := slices.Contains(available, controller); {
		case !has && slices.Contains(requiredV2, controller):
			return fmt.Errorf("control groups have no controller %s, only %q", controller, available)
		case has && !slices.Contains(enabled, controller):
			wanted = append(wanted, "+"+controller)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(c.root, "cgroup.subtree_control"), []byte(strings.Join(wanted, " ")),
		0o600); err != nil {
		return fmt.Errorf("control groups do not have the controllers %q yet, and this process, which may be in a "+
			"container, cannot add them: %w", wanted, err)
	}
	return nil
}

// hold makes a control group and locks it until this process ends.
func hold(group string) error {
	for {
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		lock, err := lockGroup(group, 0)
		if errors.Is(err, fs.ErrNotExist) { // a sweep has removed it before it was locked
			continue
		}
		if err != nil {
			return err
		}
		var here, there syscall.Stat_t
		if err := syscall.Fstat(lock, &here); err != nil {
			return err
		}
		if err := syscall.Stat(group, &there); err == nil && here.Ino == there.Ino {
			return nil // it stays open
		}
		_ = syscall.Close(lock)
	}
}

// lockGroup locks the directory of a group. The kernel releases the lock when the descriptor is closed or the process
// ends.
func lockGroup(group string, how int) (int, error) {
	lock, err := syscall.Open(group, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening a control group: %w", err)
	}
	if err := syscall.Flock(lock, syscall.LOCK_EX|how); err != nil {
		_ = syscall.Close(lock)
		return 0, fmt.Errorf("locking a control group: %w", err)
	}
	return lock, nil
}

// sweep removes the groups of nodes whose first process has ended.
func (c cgroups) sweep() error {
	names := map[string]bool{}
	for _, pattern := range []string{"*" + groupSuffix, filepath.Join("*", "*"+groupSuffix)} {
		groups, err := filepath.Glob(filepath.Join(c.root, pattern))
		if err != nil {
			return err
		}
		for _, group := range groups {
			names[filepath.Base(group)] = true
		}
	}
	var errs []error
	for name := range names {
		lock, err := lockGroup(c.locked(name), syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
		case err == nil:
			errs = append(errs, c.remove(name))
			_ = syscall.Close(lock)
		case errors.Is(err, fs.ErrNotExist): // it is being removed, or the process that removed it was killed
			errs = append(errs, c.remove(name))
		default:
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// remove removes the groups of a node that has ended.
func (c cgroups) remove(name string) error {
	var left error
	for range 100 { // the kernel may need a moment to report a group as empty
		left = nil
		groups, err := filepath.Glob(filepath.Join(c.root, "*", name))
		if err != nil {
			return err
		}
		locked := c.locked(name)
		groups = slices.DeleteFunc(groups, func(group string) bool { return group == locked })
		for _, group := range append(groups, locked) {
			left = errors.Join(left, removeTree(group))
		}
		if left == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("removing the control groups of a node: %w", left)
}

// removeTree removes a control group and those below it. Their files cannot be removed, and need not.
func removeTree(group string) error {
	var groups []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // another process removes it, too
			return nil
		}
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	for _, path := range slices.Backward(groups) {
		if failed := os.Remove(path); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Sweep removes the control groups of nodes that were killed with their launcher, in any directory.
func Sweep() error { return machineGroups().sweep() }

// Remove removes the kernel's state of a node that has ended: its control groups, which are named after its directory,
// and the loop devices of files in it.
func Remove(dir string) error {
	return errors.Join(removeLoops(dir), machineGroups().remove(Config{Name: filepath.Base(dir)}.group()))
}
