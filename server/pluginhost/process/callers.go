package process

import (
	"sync"
	"time"

	"github.com/cleat-dev/cleat/server/pluginhost/calls"
)

// lateness is how long after the reply to a call a line that the call has written may be read.
const lateness = time.Second

// callers are the runs for which a process works. A line that does not name its run belongs to one of them.
type callers struct {
	mu    sync.Mutex
	byRun map[string]*caller // "" has the calls of no run
}

// caller is the work of a process for one run.
type caller struct {
	calls int       // in flight
	ended time.Time // when the last one ended; zero if all its lines are read
	waits bool      // for work that goes on after the calls
}

// begin adds a call.
func (c *callers) begin(of calls.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRun == nil {
		c.byRun = map[string]*caller{}
	}
	known, ok := c.byRun[of.Run]
	if !ok {
		known = &caller{}
		c.byRun[of.Run] = known
	}
	known.calls++
	known.waits = known.waits || of.Waits
}

// end removes a call.
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

// only returns the run to which a line that was just read belongs: the only one that has a call in flight, had one a moment ago, or waits
// for work. It returns "" if there are several or none. A run whose log is not open any more does not wait.
func (c *callers) only(isOpen func(run string) bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []string
	for run, known := range c.byRun {
		known.waits = known.waits && isOpen(run)
		if known.calls > 0 || known.waits || time.Since(known.ended) < lateness {
			found = append(found, run)
		} else {
			delete(c.byRun, run)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}
