package pluginhost

import "syscall"

// processAttributes puts a plugin into a group of its own, which ends with it, and has the kernel kill it when
// the server is gone without a word.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
