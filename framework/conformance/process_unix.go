//go:build unix

package conformance

import (
	"errors"
	"os"
	"syscall"
)

// ownGroup makes a process the leader of a new process group, which its children belong to.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }

// groupLives reports whether there are processes left in the group of leader.
func groupLives(leader *os.Process) bool {
	return !errors.Is(syscall.Kill(-leader.Pid, 0), syscall.ESRCH) && !onlyDead(leader.Pid)
}

func terminate(leader *os.Process) error { return leader.Signal(syscall.SIGTERM) }

func quit(leader *os.Process) error { return leader.Signal(syscall.SIGQUIT) }
