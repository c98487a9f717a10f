package process

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// UsageOf returns the resources of a process.
func UsageOf(pid int) (Usage, error) {
	root := filepath.Join("/proc", strconv.Itoa(pid))
	memory, err := memoryIn(filepath.Join(root, "status"))
	if err != nil {
		return Usage{}, err
	}
	files, err := os.ReadDir(filepath.Join(root, "fd"))
	if err != nil {
		return Usage{}, err
	}
	group, err := groupOf(pid)
	return Usage{Memory: memory, Files: int64(len(files)), Children: int64(len(group)) - 1}, err
}

// memoryIn returns the private memory of a process in bytes, swapped out or not, from its status in /proc. Memory that
// is mapped from files is not counted: it depends on the free memory of the machine.
func memoryIn(path string) (int64, error) {
	status, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	kibibytes := map[string]int64{}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kibibytes[name], _ = strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	}
	own := kibibytes["RssAnon"] + kibibytes["RssShmem"] + kibibytes["VmSwap"]
	if _, told := kibibytes["RssAnon"]; !told { // an old kernel, or a kernel other than Linux
		own = kibibytes["VmRSS"] + kibibytes["VmSwap"]
	}
	return own << 10, nil
}

// groupOf returns the states of the processes in the group of leader, including leader itself.
func groupOf(leader int) (states []string, err error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := proc.Readdirnames(-1)
	if err := errors.Join(err, proc.Close()); err != nil {
		return nil, err
	}
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", name, "stat"))
		if err != nil {
			continue // the process has exited
		}
		// The line is "pid (name) state parent group ...". The name may have any characters.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(leader) {
			states = append(states, fields[0])
		}
	}
	return states, nil
}

// onlyDead reports whether all processes in the group of leader are zombies, as happens in a container whose first
// process is not an init.
func onlyDead(leader int) bool {
	states, err := groupOf(leader)
	return err == nil && !slices.ContainsFunc(states, func(state string) bool { return state != "Z" && state != "X" })
}
