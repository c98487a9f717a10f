//go:build unix && !linux

package pluginhost

import "syscall"

// processAttributes puts a plugin into a group of its own, which ends with it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
