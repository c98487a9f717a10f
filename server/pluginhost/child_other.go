//go:build !unix

package pluginhost

import (
	"net"
	"os"
	"syscall"
)

func processAttributes() *syscall.SysProcAttr { return nil }

func killProcessGroup(process *os.Process) { _ = process.Kill() }

func pipeIsEmpty(*os.File) bool { return true }

func hungUp(net.Conn) bool { return false }
