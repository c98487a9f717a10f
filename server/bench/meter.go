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
	started      float64 // the peak of the memory of the processes that the server has started
}

// meter measures the processes of a server: its own and the ones that it has started.
type meter struct {
	pid    int
	before float64
	done   chan struct{}
	peak   chan usage
}

// meterPause is the time between two readings of the memory.
const meterPause = 20 * time.Millisecond

func startMeter(pid int) (*meter, error) {
	now, err := tree(pid)
	if err != nil {
		return nil, err
	}
	m := &meter{pid: pid, before: now.cpu, done: make(chan struct{}), peak: make(chan usage, 1)}
	go func() {
		most := usage{}
		for {
			if now, err := tree(pid); err == nil {
				most.megabytes, most.started = max(most.megabytes, now.megabytes), max(most.started, now.started)
			}
			select {
			case <-m.done:
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
	used := m.end()
	now, err := tree(m.pid)
	used.cpu = now.cpu - m.before
	return used, err
}

// end returns the memory since the start, also of a server that has ended.
func (m *meter) end() usage {
	close(m.done)
	return <-m.peak
}

// ticks is the number of clock ticks in a second of CPU time in /proc, which is the same on all machines with Linux.
const ticks = 100

// tree returns the CPU seconds of a process and its descendants, including ended ones, and their memory. Pages of
// files, which processes of one program share, do not count.
func tree(root int) (now usage, err error) {
	children, stats := map[int][]int{}, map[int][]string{}
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return usage{}, err
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
			return usage{}, fmt.Errorf("read %s: %w", path, err)
		}
		stats[pid], children[parent] = fields, append(children[parent], pid)
	}
	if stats[root] == nil {
		return usage{}, fmt.Errorf("process %d: %w", root, fs.ErrNotExist)
	}
	for left := []int{root}; len(left) > 0; left = left[1:] {
		left = append(left, children[left[0]]...)
		for _, field := range stats[left[0]][firstTime : lastTime+1] {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return usage{}, fmt.Errorf("read /proc/%d/stat: %w", left[0], err)
			}
			now.cpu += n / ticks
		}
		own := anonymous(left[0])
		now.megabytes += own
		if left[0] != root {
			now.started += own
		}
	}
	return now, nil
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
