//go:build unix

package process

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// killProcessGroup sends SIGKILL to the group that the process leads, which may outlive it.
func killProcessGroup(process *os.Process) {
	_ = syscall.Kill(-process.Pid, syscall.SIGKILL)
}

func pipeIsEmpty(pipe *os.File) bool { return poll(pipe)&unix.POLLIN == 0 }

// hungUp reports whether either side of a connection is closed.
func hungUp(conn net.Conn) bool {
	file, ok := conn.(syscall.Conn)
	return ok && poll(file)&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}

// poll returns the poll events of a file; those of a closed file are POLLNVAL.
func poll(file syscall.Conn) int16 {
	raw, err := file.SyscallConn()
	if err != nil {
		return unix.POLLNVAL
	}
	asked := []unix.PollFd{{Events: unix.POLLIN}}
	err = raw.Control(func(fd uintptr) {
		asked[0].Fd = int32(fd)
		_, _ = unix.Poll(asked, 0)
	})
	if err != nil {
		return unix.POLLNVAL
	}
	return asked[0].Revents
}
