//go:build unix

package process

import (
	"errors"
	"os"
	"syscall"
)

// OwnGroup makes a process the leader of a new process group, which its children belong to.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// KillGroup kills the processes in the group of leader.
func KillGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }

// GroupLives reports whether there are processes left in the group of leader.
func GroupLives(leader *os.Process) bool {
	return !errors.Is(syscall.Kill(-leader.Pid, 0), syscall.ESRCH) && !onlyDead(leader.Pid)
}

// Terminate sends SIGTERM.
func Terminate(leader *os.Process) error { return leader.Signal(syscall.SIGTERM) }

// Quit sends SIGQUIT, on which a Go program writes its goroutines to stderr and exits.
func Quit(leader *os.Process) error { return leader.Signal(syscall.SIGQUIT) }
