package program

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// attributes has the kernel interrupt restic when this process is killed, so that it removes its lock.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT} }

// usage returns what a process has used, or false if that cannot be known.
func usage(pid int) (u Usage, known bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system = 11, 12 // of the fields after the name: proc_pid_stat(5), fields 14 and 15
	if len(fields) <= system {
		return u, false
	}
	for _, field := range fields[user : system+1] {
		ticks, _ := strconv.ParseUint(string(field), 10, 64)
		u.Processor += ticks
	}
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return u, true
	}
	for line := range strings.Lines(string(io)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		number, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "rchar":
			u.Read = number
		case "wchar":
			u.Written = number
		}
	}
	return u, true
}
