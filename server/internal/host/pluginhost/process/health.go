package process

import (
	"sync"
	"time"
)

// health has the failures and restarts of the processes of a binary, which may have several supervisors. It is safe for
// concurrent use.
type health struct {
	mu       sync.Mutex
	breaker  breaker
	restarts int  // starts in the place of a process that had failed
	failed   bool // the last process, or the last try to start one
}

// next returns how long to wait before a start, or an error if there is to be none now.
func (h *health) next(now time.Time, command string) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.breaker.next(now, command)
}

// worked notes that a process did real work.
func (h *health) worked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.breaker.worked()
}

// fail notes a failure, and reports whether no further start is tried for a while.
func (h *health) fail(now time.Time, uptime time.Duration, err error) (open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = true
	h.breaker.failed(now, uptime, err)
	return h.breaker.open()
}

// restarted notes a start, and reports whether it takes the place of a process that had failed.
func (h *health) restarted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	again := h.failed
	h.failed = false
	if again {
		h.restarts++
	}
	return again
}

func (h *health) restartsSoFar() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.restarts
}
