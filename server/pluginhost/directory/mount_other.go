//go:build !linux

package directory

// isMountPoint reports whether something is mounted at dir. Pods run on Linux.
func isMountPoint(string) bool { return false }

// isReadOnly reports whether the file system of path is mounted read-only.
func isReadOnly(string) bool { return false }
