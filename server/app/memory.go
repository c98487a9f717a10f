package app

import (
	"os"
	"strconv"
	"strings"
)

const (
	// ownMemory is what this process needs beside data movers.
	ownMemory = 48 << 20
	// leastMemory is what a data mover needs at least.
	leastMemory = 64 << 20
)

// memoryOfMover returns the bytes below which each of some data movers has to stay, so that all of them and this
// process stay below 90 % of the limit of the control group; 0 if there is no limit.
func memoryOfMover(atOnce int) int64 {
	limit := memoryLimit()
	if limit <= 0 {
		return 0
	}
	const tenths = 9
	share := (limit/10*tenths - ownMemory) / int64(max(1, atOnce))
	return min(max(share, leastMemory), limit/10*tenths)
}

// memoryLimit returns the limit of the control group of this process in bytes, 0 if there is none.
func memoryLimit() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		const unlimited = 1 << 50 // the kernel writes a huge number, or "max"
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && limit < unlimited {
			return limit
		}
	}
	return 0
}

// killedForMemory returns how many processes in the control group of this process the kernel has killed because of
// their memory.
func killedForMemory() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "oom_kill" {
				n, _ := strconv.ParseInt(fields[1], 10, 64)
				return n
			}
		}
	}
	return 0
}
