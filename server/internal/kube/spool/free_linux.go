package spool

import (
	"os"
	"syscall"
)

// freeSpace returns the bytes that are free on the disk of a file, and false if the system does not report them.
func freeSpace(file *os.File) (int64, bool) {
	var disk syscall.Statfs_t
	if err := syscall.Fstatfs(int(file.Fd()), &disk); err != nil {
		return 0, false
	}
	return int64(min(disk.Bavail, 1<<40)) * int64(disk.Bsize), true //nolint:unconvert // Bsize has another type elsewhere
}
