//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package operations

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// tryLock takes the lock of file unless another open file has it. The kernel gives it back when the file is closed, which
// the end of the process does too.
func tryLock(file *os.File) (taken bool, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return false, err
	}
	var locked error
	if err := raw.Control(func(fd uintptr) {
		for locked = syscall.EINTR; locked == syscall.EINTR; { //nolint:errorlint // it is what the kernel says
			locked = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
		}
	}); err != nil {
		return false, err
	}
	if errors.Is(locked, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if locked != nil {
		return false, fmt.Errorf("flock: %w", locked)
	}
	return true, nil
}
