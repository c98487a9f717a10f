package backupqueue

import (
	"sync/atomic"
	"time"
)

// Pace determines when the positions of backups that are already in the queue are written. Every start of a backup
// changes all of them, so the queue waits for a pause. The zero Pace writes them immediately.
type Pace struct {
	Quiet time.Duration // without an event
	Late  time.Duration // from the first wrong position, if there is no pause
}

// DefaultPace is the pace of a server: positions are right within a second without other events, and within five
// seconds under load.
func DefaultPace() Pace { return Pace{Quiet: 300 * time.Millisecond, Late: 3 * time.Second} }

// backlog records since when there are positions to write. It is lost with the process: the next process waits for a
// pause, too.
type backlog struct {
	since time.Time                 // of the first position; zero without any
	event atomic.Pointer[time.Time] // the last event; nil without
}

// clear records that there are no positions to write.
func (b *backlog) clear() { b.since = time.Time{} }

// pause returns how long the writing of positions has to wait, or 0 if it is due. waiting reports whether there are
// any.
func (b *backlog) pause(pace Pace, waiting bool, now time.Time) time.Duration {
	if !waiting {
		b.clear()
		return 0
	}
	if b.since.IsZero() {
		b.since = now
	}
	late := pace.Late - now.Sub(b.since)
	if event := b.event.Load(); event != nil {
		return max(0, min(late, pace.Quiet-now.Sub(*event)))
	}
	return 0
}
