//go:build !linux

package directory

// isMountPoint tells whether something is mounted at dir. Pods run on Linux.
func isMountPoint(string) bool { return false }

// isReadOnly tells whether nobody who sees path can write there.
func isReadOnly(string) bool { return false }
