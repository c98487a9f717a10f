//go:build !unix

package process

import (
	"net"
	"os"
	"os/exec"
	"syscall"
)

func processAttributes() *syscall.SysProcAttr { return nil }

func limitMemory(int, int) error { return nil }

func waitAndSweep(cmd *exec.Cmd, _ string, disown func()) error {
	defer disown()
	return cmd.Wait()
}

func killProcessGroup(process *os.Process) { _ = process.Kill() }

func pipeIsEmpty(*os.File) bool { return true }

func hungUp(net.Conn) bool { return false }
