package process

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
)

// lateness is how long after the reply to a call a line that the call has written may be read. On a busy machine that
// takes seconds.
const lateness = drainTime

// callers are the runs for which a process works. A line that does not name its run belongs to one of them.
type callers struct {
	isOpen func(run string) bool // whether the log of the run is open; without one, a run does not wait any more

	mu    sync.Mutex
	byRun map[string]*caller // "" has the calls of no run
}

// caller is the work of a process for one run.
type caller struct {
	calls int       // in flight
	ended time.Time // when the last one ended; zero if all its lines are read
	waits bool      // for work that goes on after the calls
}

func (c *callers) begin(of calls.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRun == nil {
		c.byRun = map[string]*caller{}
	}
	known, ok := c.byRun[of.Run]
	if !ok {
		c.forget()
		known = &caller{}
		c.byRun[of.Run] = known
	}
	known.calls++
	known.waits = known.waits || of.Waits
}

func (c *callers) end(of calls.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byRun[of.Run]
	known.calls--
	if of.Run != "" {
		known.ended = time.Now()
	}
}

// settle records that all lines of the ended calls of a run are read.
func (c *callers) settle(run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byRun[run]; ok {
		known.ended = time.Time{}
	}
}

// only returns the run to which a line that was just read belongs: the only one that has a call in flight, had one a
// moment ago, or waits for work. It returns "" if there are several or none.
func (c *callers) only() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	if found := slices.Collect(maps.Keys(c.byRun)); len(found) == 1 {
		return found[0]
	}
	return ""
}

// waiting returns the runs that wait for work that goes on after the calls.
func (c *callers) waiting() (runs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	for run, known := range c.byRun {
		if known.waits {
			runs = append(runs, run)
		}
	}
	return runs
}

// forget removes the runs for which the process does not work any more. The caller holds mu.
func (c *callers) forget() {
	maps.DeleteFunc(c.byRun, func(run string, known *caller) bool {
		known.waits = known.waits && c.isOpen(run)
		return known.calls == 0 && !known.waits && time.Since(known.ended) >= lateness
	})
}
