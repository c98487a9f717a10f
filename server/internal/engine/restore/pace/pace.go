// Package pace finds how many objects are best written at the same time: as many as make the API server faster, and no
// more. Start reading at Limit.
package pace

import (
	"net/http"
	"sync"
	"time"
)

const (
	// First is how many tasks may be at work at first, unless the maximum is lower.
	First = 16
	// Max is how many may be at work at most, unless the user has chosen.
	Max = 64

	// shortest is the shortest time between two looks at the speed.
	shortest = 200 * time.Millisecond
	// step is the factor between a limit and the next one that is tried.
	step = 1.5
	// gain is by how much a higher limit has to be faster to be kept, and loss how much slower a lower one may be.
	gain, loss = 1.05, 0.98
	// retreat is the part of a limit that is left when the API server is too busy.
	retreat = 0.7
	// rest is the number of looks between two trials, after one that has failed.
	rest = 8
)

// Limit is the number of tasks that may be at work at the same time. It rises as long as that makes them end faster,
// falls when fewer are as fast, and falls at once when the API server refuses requests because it is too busy. It is
// safe for concurrent use.
type Limit struct {
	max int
	now func() time.Time // nil for a limit that stays

	mu      sync.Mutex
	limit   int
	active  int
	waiting []chan struct{} // in the order of their calls

	since  time.Time // of the last look
	ended  int       // tasks since then
	scarce bool      // a task has waited since then
	busy   bool      // the API server was too busy since then

	base  float64 // tasks per second with the last limit that was kept; 0 if not known
	kept  int     // that limit, while another one is tried
	pause int     // looks until the next trial
	up    bool    // the direction of the next trial, or of the one at work
}

// NewFixed returns a limit that stays at n.
func NewFixed(n int) *Limit { return &Limit{max: n, limit: n} }

// NewAdaptive returns a limit that adapts itself.
func NewAdaptive() *Limit { return newAdaptive(time.Now) }

func newAdaptive(now func() time.Time) *Limit {
	return &Limit{max: Max, limit: First, now: now, since: now(), up: true}
}

// Most returns the most tasks that may ever be at work.
func (l *Limit) Most() int { return l.max }

// Enter waits until a task may be at work.
func (l *Limit) Enter() {
	l.mu.Lock()
	if l.active < l.limit && len(l.waiting) == 0 {
		l.active++
		l.mu.Unlock()
		return
	}
	l.scarce = true
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	<-turn
}

// Leave is called when a task is no longer at work, for a while or because it has ended.
func (l *Limit) Leave(ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	if ended {
		l.ended++
		l.look()
	}
	for len(l.waiting) > 0 && l.active < l.limit {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.active++
	}
}

// Watch returns a transport that looks for replies of an API server that is too busy.
func (l *Limit) Watch(next http.RoundTripper) http.RoundTripper { return watcher{next, l} }

type watcher struct {
	next  http.RoundTripper
	limit *Limit
}

func (w watcher) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusTooManyRequests {
		w.limit.mu.Lock()
		w.limit.busy = true
		w.limit.mu.Unlock()
	}
	return response, err
}

// look adapts the limit if enough has happened since the last look.
func (l *Limit) look() {
	if l.now == nil {
		return
	}
	now := l.now()
	took := now.Sub(l.since)
	if took < shortest || l.ended < 2*l.limit && !l.busy {
		return
	}
	speed := float64(l.ended) / took.Seconds()
	switch {
	case l.busy:
		l.limit = max(1, int(float64(l.limit)*retreat))
		l.base, l.kept, l.pause, l.up = 0, 0, rest, true
	case l.scarce: // otherwise the limit had no part in the speed
		l.adapt(speed)
	}
	l.since, l.ended, l.scarce, l.busy = now, 0, false, false
}

// adapt decides about a limit whose speed is known.
func (l *Limit) adapt(speed float64) {
	switch {
	case l.kept == 0: // no trial is at work
		if l.base == 0 {
			l.base = speed
		}
		l.base += (speed - l.base) / 4
		if l.pause--; l.pause > 0 {
			return
		}
	case l.up && speed >= l.base*gain, !l.up && speed >= l.base*loss: // on in the same direction
		l.base, l.kept = speed, 0
	default:
		l.limit, l.kept, l.pause, l.up = l.kept, 0, rest, !l.up
		return
	}
	tried := int(float64(l.limit)/step + 0.5)
	if l.up {
		tried = min(int(float64(l.limit)*step+0.5), l.max)
	}
	if tried = max(tried, 1); tried == l.limit {
		l.pause, l.up = rest, !l.up
		return
	}
	l.kept, l.limit = l.limit, tried
}
