package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// markedTime bounds how long the processes that carry a mark are looked for. It takes that long only if they start
	// others without a pause.
	markedTime = 5 * time.Second
	// markedPause separates two looks.
	markedPause = time.Millisecond
)

// killMarked kills all processes with the mark of a process that has ended, in any group and session and with any
// parents, until there are none.
func killMarked(mark string) {
	var killed []int
	for deadline := time.Now().Add(markedTime); ; time.Sleep(markedPause) {
		some := false
		for _, pid := range processes() {
			if !hasMark(pid, mark) {
				continue
			}
			some = true
			fd, err := unix.PidfdOpen(pid, 0)
			switch {
			case errors.Is(err, unix.ENOSYS):
				_ = unix.Kill(pid, unix.SIGKILL)
			case err != nil: // it has ended
			case !hasMark(pid, mark): // another process has its id
				_ = unix.Close(fd)
			default:
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
				killed = append(killed, fd)
			}
		}
		if !some || time.Now().After(deadline) {
			break
		}
	}
	if len(killed) > 0 {
		go reapKilled(killed)
	}
}

// reapKilled waits for the killed processes that have become children of the server. The server inherits orphans if it
// is the first process of its container.
func reapKilled(fds []int) {
	for _, fd := range fds {
		for deadline := time.Now().Add(markedTime); time.Now().Before(deadline); time.Sleep(markedPause) {
			err := unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED, nil)
			if err == nil || unix.PidfdSendSignal(fd, 0, nil, 0) != nil { // reaped, here or by the first process
				break
			}
		}
		_ = unix.Close(fd)
	}
}

func processes() []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hasMark reports whether the environment with which a process was started has the variable.
func hasMark(pid int, variable string) bool {
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+variable+"\x00"))
}
