package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is the resource usage of a work.
type usage struct {
	seconds, cpu float64
	megabytes    float64 // the peak of the memory of all processes of the server together
}

// meter measures the processes of a server: its own and the ones that it has started.
type meter struct {
	pid    int
	before float64
	end    chan struct{}
	peak   chan float64
}

// meterPause is the time between two readings of the memory.
const meterPause = 20 * time.Millisecond

func startMeter(pid int) (*meter, error) {
	cpu, _, err := tree(pid)
	if err != nil {
		return nil, err
	}
	m := &meter{pid: pid, before: cpu, end: make(chan struct{}), peak: make(chan float64, 1)}
	go func() {
		most := 0.0
		for {
			if _, megabytes, err := tree(pid); err == nil {
				most = max(most, megabytes)
			}
			select {
			case <-m.end:
				m.peak <- most
				return
			case <-time.After(meterPause):
			}
		}
	}()
	return m, nil
}

// stop returns the usage since the start.
func (m *meter) stop() (usage, error) {
	close(m.end)
	peak := <-m.peak
	cpu, _, err := tree(m.pid)
	return usage{cpu: cpu - m.before, megabytes: peak}, err
}

// ticks is the number of clock ticks in a second of CPU time in /proc, which is the same on all machines with Linux.
const ticks = 100

// tree returns the CPU seconds of a process and its descendants, including ended ones, and their memory in MB. Pages
// of files, which processes of one program share, do not count.
func tree(root int) (cpu, megabytes float64, err error) {
	children, stats := map[int][]int{}, map[int][]string{}
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, 0, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the state onwards
		parent, err := strconv.Atoi(fields[parentField])
		if err != nil {
			return 0, 0, fmt.Errorf("read %s: %w", path, err)
		}
		stats[pid], children[parent] = fields, append(children[parent], pid)
	}
	if stats[root] == nil {
		return 0, 0, fmt.Errorf("process %d: %w", root, fs.ErrNotExist)
	}
	for left := []int{root}; len(left) > 0; left = left[1:] {
		left = append(left, children[left[0]]...)
		for _, field := range stats[left[0]][firstTime : lastTime+1] {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("read /proc/%d/stat: %w", left[0], err)
			}
			cpu += n / ticks
		}
		megabytes += anonymous(left[0])
	}
	return cpu, megabytes, nil
}

// Positions in /proc/PID/stat, from the state onwards.
const (
	parentField = 1
	firstTime   = 11 // of the process itself, and of the children that it has waited for
	lastTime    = 14
)

// anonymous returns the memory of a process in MB without pages of files, or 0 if it has ended.
func anonymous(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, value, _ := strings.Cut(string(status), "\nRssAnon:")
	value, _, _ = strings.Cut(value, " kB")
	kib, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return kib * 1024 / 1e6
}
