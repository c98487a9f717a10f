//go:build !linux

package pluginhost

// isMountPoint tells whether something is mounted at dir. Pods run on Linux.
func isMountPoint(string) bool { return false }
