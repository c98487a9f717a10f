//go:build !unix

package conformance

import (
	"errors"
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(leader *os.Process) { _ = leader.Kill() }

func groupLives(*os.Process) bool { return false }

func terminate(*os.Process) error { return errors.ErrUnsupported }

func quit(*os.Process) error { return errors.ErrUnsupported }
