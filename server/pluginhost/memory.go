package pluginhost

import (
	"bytes"
	"os"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Process is what runs of a plugin binary.
type Process struct {
	// PID is 0 when none runs.
	PID int
	// Restarts is how often it was started in the place of one that had failed.
	Restarts int
	// ResidentBytes is the memory that it holds; 0 where the system does not tell (it is Linux that does).
	ResidentBytes int64
}

// state is that of the shared process of a binary.
func (s *supervisor) state() Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := Process{Restarts: s.restarts}
	if s.current != nil && !s.current.ended() {
		state.PID = s.current.pid()
		state.ResidentBytes = residentBytes(state.PID)
	}
	return state
}

// pid is the process id.
func (p *process) pid() int {
	p.child.mu.Lock()
	defer p.child.mu.Unlock()
	return p.child.pid
}

// residentBytes is the resident set of a process, 0 when it is not known. The second number of statm counts pages.
func residentBytes(pid int) int64 {
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// processCollector looks at the running processes whenever it is asked.
type processCollector struct {
	running           *registry
	processes, memory *prometheus.Desc
}

func newProcessCollector(running *registry) *processCollector {
	return &processCollector{
		running:   running,
		processes: prometheus.NewDesc("cleat_plugin_processes", "Running processes of a plugin binary.", []string{"command"}, nil),
		memory: prometheus.NewDesc("cleat_plugin_resident_memory_bytes",
			"Resident memory of all processes of a plugin binary.", []string{"command"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *processCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.processes
	descs <- c.memory
}

// Collect implements prometheus.Collector.
func (c *processCollector) Collect(metrics chan<- prometheus.Metric) {
	count, memory := map[string]int{}, map[string]int64{}
	for _, p := range c.running.all() {
		count[p.path]++
		memory[p.path] += residentBytes(p.pid())
	}
	for command, n := range count {
		metrics <- prometheus.MustNewConstMetric(c.processes, prometheus.GaugeValue, float64(n), command)
		if memory[command] > 0 {
			metrics <- prometheus.MustNewConstMetric(c.memory, prometheus.GaugeValue, float64(memory[command]), command)
		}
	}
}
