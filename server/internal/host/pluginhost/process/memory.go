package process

import (
	"bytes"
	"os"
	"strconv"
)

// Process describes the process of a plugin binary.
type Process struct {
	// PID is the process id, 0 when none runs.
	PID int
	// Restarts is how often it was started in place of one that had failed.
	Restarts int
	// ResidentBytes is the memory that it uses; 0 if it is not known, as on systems other than Linux.
	ResidentBytes int64
}

// State returns the state of the process.
func (s *Supervisor) State() Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := Process{Restarts: s.health.restartsSoFar()}
	if s.current != nil && !s.current.hasExited() {
		state.PID = s.current.pid()
		state.ResidentBytes = residentBytes(state.PID)
	}
	return state
}

// Calls returns the number of calls that the process is serving.
func (s *Supervisor) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0
	}
	return s.current.users
}

func (p *process) pid() int {
	p.child.mu.Lock()
	defer p.child.mu.Unlock()
	return p.child.pid
}

// residentBytes returns the resident set of a process, 0 if it is not known. The second number of statm counts pages.
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
