//go:build !linux

package directory

// isMountPoint reports whether something is mounted at dir. Pods run on Linux.
func isMountPoint(string) bool { return false }
