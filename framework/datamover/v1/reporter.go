package v1

import (
	"sync"
	"time"

	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
)

// interval is the shortest time between two messages with progress, so that a mover can report each file.
const interval = time.Second

// reporter sends progress at most once per interval; the last report of an interval counts.
type reporter struct {
	send func(*datamoverv1.Progress) error

	mu      sync.Mutex
	waiting *Progress   // to be sent when the timer fires
	timer   *time.Timer // runs for an interval after a message
	ended   bool
}

// report takes what a mover reports.
func (r *reporter) report(progress Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = &progress
	if r.timer == nil {
		r.sendWaiting()
	}
}

// sendWaiting sends what waits, and begins the next interval. r.mu must be held.
func (r *reporter) sendWaiting() {
	if r.ended || r.waiting == nil {
		r.timer = nil
		return
	}
	sent := encodeProgress(*r.waiting)
	r.waiting = nil
	if r.send(sent) != nil { // the host has cancelled the call, as ctx says
		r.ended = true
	}
	r.timer = time.AfterFunc(interval, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sendWaiting()
	})
}

// end drops what waits. Nothing is sent after it has returned.
func (r *reporter) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.timer != nil {
		r.timer.Stop()
	}
}
