package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// fault holds more ways to misbehave; set adds an annotation to the item in the reply.
func fault(what string, set func(key, value string)) error {
	switch what {
	case "fork a session":
		child := exec.Command("sleep", "3600")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			return err
		}
		set("child", strconv.Itoa(child.Process.Pid))
	case "fork away", "fork a session away":
		// The shell exits, so that its child becomes an orphan.
		shell := exec.Command("sh", "-c", "sleep 3600 >/dev/null 2>&1 & echo $!")
		shell.SysProcAttr = &syscall.SysProcAttr{Setsid: what == "fork a session away"}
		pid, err := shell.Output()
		if err != nil {
			return err
		}
		set("child", strings.TrimSpace(string(pid)))
	case "eat memory":
		debug.SetGCPercent(-1) // otherwise Go dies in the garbage collector, with a longer message
		set("eaten", string(make([]byte, 1<<30)))
	case "log 1000 lines", "log 3000 lines":
		var n int
		_, _ = fmt.Sscanf(what, "log %d", &n)
		for i := range n {
			fmt.Fprintf(inheritedStderr, "{\"@level\":\"info\",\"@message\":\"line\",\"n\":%d}\n", i)
		}
	case "lines of 64 KiB and 10 MiB":
		for _, size := range []int{64 << 10, 10 << 20} {
			_, _ = inheritedStderr.WriteString(strings.Repeat("l", size) + "\n")
			fmt.Fprintln(inheritedStderr, "after a line of", size)
		}
	case "noise on stdout":
		// go-plugin has replaced os.Stdout; this is the pipe on which the handshake line was.
		_, _ = os.NewFile(1, "stdout").WriteString("1|2|tcp|127.0.0.1:1|grpc|\n\x00\xff\nnoise\n")
	}
	return nil
}
