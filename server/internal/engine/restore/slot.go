package restore

import (
	"context"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// Slot is what a restore holds while it is at work, if only so many restores may be.
type Slot interface {
	// Leave gives the slot to another restore. It does not block.
	Leave()
	// Enter returns when the restore has a slot again, or with the cause of ctx when that ends.
	Enter(ctx context.Context) error
}

// slotPatience is how long all items of a restore wait before it leaves its slot.
const slotPatience = 5 * time.Second

// slot leaves the slot of a restore while none of its items is at work and some wait, and takes one again before an
// item goes on. Its methods do nothing if the restore has no slot.
type slot struct {
	of Slot // nil for none

	entering sync.Mutex // held while a slot is awaited; before mu

	mu      sync.Mutex
	working int // items
	waiting int // items, and waits between items
	timer   *time.Timer
	left    bool
}

// work records that an item begins or goes on, and returns when the restore has its slot. If ctx ends before, the next
// request of the item fails.
func (s *slot) work(ctx context.Context) {
	s.change(1, 0)
	s.entering.Lock()
	defer s.entering.Unlock()
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	if !left {
		return
	}
	defer waits.Begin(ctx, "a slot, which the restore has left while it waited").End()
	if s.of.Enter(ctx) == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.left = false
	}
}

// rest records that an item has ended or waits.
func (s *slot) rest() { s.change(-1, 0) }

// wait records that something waits, until the returned function is called.
func (s *slot) wait() (ended func()) {
	s.change(0, 1)
	return func() { s.change(0, -1) }
}

func (s *slot) change(working, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working += working
	s.waiting += waiting
	switch idle := s.of != nil && s.working == 0 && s.waiting > 0; {
	case !idle && s.timer != nil:
		s.timer.Stop()
		s.timer = nil
	case idle && s.timer == nil && !s.left:
		s.timer = time.AfterFunc(slotPatience, s.leave)
	}
}

func (s *slot) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && s.working == 0 { // otherwise it was stopped when it fired
		s.timer, s.left = nil, true
		s.of.Leave()
	}
}

// stalled opens a wait for a webhook, or for an aggregated API of the backup. Other API groups are of the API server,
// whose outage has its own time.
func (e *engine) stalled(ctx context.Context, group string) (until time.Time, over func()) {
	if group != "" && (e.schedule == nil || !e.schedule.order.Aggregates(group)) {
		return time.Time{}, func() {}
	}
	return e.gate(ctx)
}

type atWorkKey struct{}

// atWork returns a context for an item that is at work.
func atWork(ctx context.Context) context.Context { return context.WithValue(ctx, atWorkKey{}, true) }

// gate opens a wait for what may never be ready, until the returned function is called, and returns when it has to end.
// An item that is at work waits meanwhile.
func (e *engine) gate(ctx context.Context) (until time.Time, over func()) {
	s := e.pool.slot
	ended := s.wait()
	item := ctx.Value(atWorkKey{}) != nil
	if item {
		s.rest()
	}
	return e.gates.begin(), func() {
		e.gates.end()
		ended()
		if item {
			s.work(ctx)
		}
	}
}
