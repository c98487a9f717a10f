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

func wait(cmd *exec.Cmd, disown func()) error {
	defer disown()
	return cmd.Wait()
}

func killProcessGroup(process *os.Process) { _ = process.Kill() }

func pipeIsEmpty(*os.File) bool { return true }

func hungUp(net.Conn) bool { return false }
