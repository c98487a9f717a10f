package process

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes puts a plugin into a process group of its own, which ends with it, and has the kernel kill it when
// the server is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// limitMemory limits the private writable mappings of a process: its heap and its stacks. Reserved address space, which
// is large in Go programs, does not count.
func limitMemory(pid, bytes int) error {
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}, nil)
}

// wait waits for the end of a process and then kills the rest of its group with disown.
func wait(cmd *exec.Cmd, disown func()) error {
	group := cmd.Process.Pid
	for { // until it is a zombie, whose id is not used again yet
		err := unix.Waitid(unix.P_PID, group, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	disown()
	err := cmd.Wait()
	go reap(group)
	return err
}

// reap waits for the processes of a killed group that have become children of the server, which inherits orphans if it
// is the first process of its container.
func reap(group int) {
	for {
		if _, err := unix.Wait4(-group, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
