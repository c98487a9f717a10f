//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// processAttributes puts a plugin into a process group of its own, which ends with it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func limitMemory(int, int) error { return nil }

// wait waits for the end of a process; disown then kills its group.
func wait(cmd *exec.Cmd, disown func()) error {
	defer disown()
	return cmd.Wait()
}
