package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// usageOf is what a process holds.
func usageOf(pid int) (usage, error) {
	root := filepath.Join("/proc", strconv.Itoa(pid))
	memory, err := memoryIn(filepath.Join(root, "status"))
	if err != nil {
		return usage{}, err
	}
	files, err := os.ReadDir(filepath.Join(root, "fd"))
	if err != nil {
		return usage{}, err
	}
	group, err := groupOf(pid)
	return usage{memory: memory, files: int64(len(files)), children: int64(len(group)) - 1}, err
}

// memoryIn is how many bytes a process has of its own, swapped out or not, by its status in /proc. What is mapped from files,
// its program above all, comes and goes with the memory that the machine has left.
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
	if _, told := kibibytes["RssAnon"]; !told { // by a kernel that is no Linux, or an old one
		own = kibibytes["VmRSS"] + kibibytes["VmSwap"]
	}
	return own << 10, nil
}

// groupOf are the states of the processes in the group that leader leads, itself among them.
func groupOf(leader int) (states []string, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent group ...", where the name may have anything in it.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(leader) {
			states = append(states, fields[0])
		}
	}
	return states, nil
}

// onlyDead says whether all that is left of the group that leader led are processes that have ended and that nobody has
// asked how, as happens in a container whose first process is no init.
func onlyDead(leader int) bool {
	states, err := groupOf(leader)
	return err == nil && !slices.ContainsFunc(states, func(state string) bool { return state != "Z" && state != "X" })
}
