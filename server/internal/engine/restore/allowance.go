package restore

import (
	"sync"
	"time"
)

// allowance is the time that all waits of one kind in a restore share. It passes while at least one of them is open, so
// that waits at the same time cost once, and a chain of waits costs no more than one of them.
type allowance struct {
	limit time.Duration

	mu    sync.Mutex
	open  int           // waits
	since time.Time     // when the first of the open waits began
	spent time.Duration // before that
}

func newAllowance(limit time.Duration) *allowance { return &allowance{limit: limit} }

// begin opens a wait and returns when it has to end, which is in the past if no time is left. end must be called.
func (a *allowance) begin() (until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open++; a.open == 1 {
		a.since = time.Now()
	}
	return a.since.Add(a.limit - a.spent)
}

// end closes a wait.
func (a *allowance) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open--; a.open == 0 {
		a.spent += time.Since(a.since)
	}
}

// left returns the time that is left, and zero if none is.
func (a *allowance) left() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	spent := a.spent
	if a.open > 0 {
		spent += time.Since(a.since)
	}
	return max(0, a.limit-spent)
}

// useUp leaves no time for the waits that begin later.
func (a *allowance) useUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent = max(a.spent, a.limit)
}
