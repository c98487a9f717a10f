//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package operations

import (
	"fmt"
	"os"
	"syscall"
)

// lock waits until no other open file has the lock of file, and takes it. The kernel releases it when the file is
// closed, which happens at the latest when the process ends.
func lock(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		for failed = syscall.EINTR; failed == syscall.EINTR; { //nolint:errorlint // the kernel returns it unwrapped
			failed = syscall.Flock(int(fd), syscall.LOCK_EX)
		}
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("flock: %w", failed)
	}
	return nil
}
