package program

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes has the kernel interrupt restic when this process is killed, so that it removes its lock.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT} }

// passwordFile returns the path of a pipe from which a program reads a password, once. No file has it, and /proc is not
// needed, which a mover on a node does not have. forget must be called when the program has ended.
func passwordFile(password []byte) (path string, forget func(), err error) {
	if err := checkPassword(password); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "cleat-restic-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "password")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		pipe, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when somebody reads
		if err != nil {
			return
		}
		_, _ = pipe.Write(password) // without a reader, the program has ended
		_ = pipe.Close()
	}()
	return path, func() {
		reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // in case that the program has not read it
		if err == nil {
			<-written
			_ = reader.Close()
		}
		_ = os.RemoveAll(dir)
	}, nil
}

// usage returns what a process has used, or false if that cannot be known. Where there is no /proc, it is the time of
// the processor alone.
func usage(pid int) (u Usage, known bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		var spent unix.Timespec
		err := unix.ClockGettime(processorClock(pid), &spent)
		return Usage{Processor: uint64(spent.Nano())}, err == nil
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

// processorClock returns the clock that counts the time of the processor that a process has used, as
// clock_getcpuclockid(3) does.
func processorClock(pid int) int32 {
	const shift, scheduled = 3, 2
	return int32(^pid)<<shift | scheduled
}
