//go:build !unix

package process

import (
	"errors"
	"os"
	"syscall"
)

// OwnGroup does nothing: this operating system has no process groups.
func OwnGroup() *syscall.SysProcAttr { return nil }

// KillGroup kills the process.
func KillGroup(leader *os.Process) { _ = leader.Kill() }

// GroupLives returns false: this operating system has no process groups.
func GroupLives(*os.Process) bool { return false }

// Terminate is not supported.
func Terminate(*os.Process) error { return errors.ErrUnsupported }

// Quit is not supported.
func Quit(*os.Process) error { return errors.ErrUnsupported }
