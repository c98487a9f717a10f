package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// usageOf is what a process holds.
func usageOf(pid int) (usage, error) {
	root := filepath.Join("/proc", strconv.Itoa(pid))
	statm, err := os.ReadFile(filepath.Join(root, "statm"))
	if err != nil {
		return usage{}, err
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return usage{}, fmt.Errorf("%s/statm is %q", root, statm)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return usage{}, fmt.Errorf("%s/statm: %w", root, err)
	}
	files, err := os.ReadDir(filepath.Join(root, "fd"))
	if err != nil {
		return usage{}, err
	}
	used := usage{memory: pages * int64(os.Getpagesize()), files: int64(len(files))}
	used.children, err = groupSize(pid)
	return used, err
}

// groupSize is how many processes there are in the group that leader leads, without itself.
func groupSize(leader int) (int64, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	size := int64(-1)
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent group ...", where the name may have anything in it.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(leader) {
			size++
		}
	}
	return size, nil
}
