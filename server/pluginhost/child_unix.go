//go:build unix

package pluginhost

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// killProcessGroup sends SIGKILL to the group that the process leads, which may outlive it.
func killProcessGroup(process *os.Process) {
	_ = syscall.Kill(-process.Pid, syscall.SIGKILL)
}

// pipeIsEmpty tells whether nothing waits to be read.
func pipeIsEmpty(pipe *os.File) bool {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return true
	}
	ready := 0
	err = raw.Control(func(fd uintptr) {
		ready, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return err != nil || ready == 0
}
