package process

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes puts a plugin into a group of its own, which ends with it, and has the kernel kill it when
// the server is gone without a word.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// limitMemory bounds what a process may have mapped to write, privately: its heap and its stacks, and not what it has
// reserved, which is plenty in Go.
func limitMemory(pid, bytes int) error {
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}, nil)
}

// waitAndSweep waits for the end of a process and then ends what it has started. disown kills its group; what has
// left that is known by mark, a variable in the environment that nobody else has. Only what has left the group
// and has dropped its environment too gets away.
func waitAndSweep(cmd *exec.Cmd, mark string, disown func()) error {
	leader := cmd.Process.Pid
	for { // until it is a zombie, which keeps its number from being used again
		err := unix.Waitid(unix.P_PID, leader, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	disown()
	var known []int
	for range maxSweeps {
		before := len(known)
		known = sweep(leader, mark, known)
		if len(known) == before {
			break
		}
	}
	return cmd.Wait()
}

// maxSweeps ends the race with a process that forks faster than it can be looked for.
const maxSweeps = 100

// sweep kills the processes that belong to leader and are not in known. It gives known with them.
func sweep(leader int, mark string, known []int) []int {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return known
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(folder.Name())
		if err != nil || pid == leader || slices.Contains(known, pid) || !belongs(pid, leader, mark) {
			continue
		}
		process, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if !belongs(pid, leader, mark) { // no longer, so process may be somebody else
			_ = process.Release()
			continue
		}
		_ = process.Kill()
		known = append(known, pid)
		// A server that is the first process of its container inherits orphans and has to bury them.
		go func() { _, _ = process.Wait() }()
	}
	return known
}

// belongs tells whether a process is in the group of leader or has its mark.
func belongs(pid, leader int, mark string) bool {
	folder := "/proc/" + strconv.Itoa(pid)
	environment, err := os.ReadFile(folder + "/environ")
	if err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(v []byte) bool { return string(v) == mark }) {
		return true
	}
	stat, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return false
	}
	// "pid (name) state parent group ..."; only the name can have blanks and brackets.
	_, after, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(after)
	return len(fields) > 2 && fields[2] == strconv.Itoa(leader)
}
