package restores

import (
	"context"
	"slices"
	"sync"
)

// MaxWaiting is the number of restores that may wait beside those that are at work.
const MaxWaiting = 64

// Slots limits the restores that are at work at once. A restore that only waits leaves its slot.
type Slots struct {
	mu   sync.Mutex
	free int
	back []chan struct{} // restores that go on, which come first
	next []chan struct{} // those that begin
}

// NewSlots returns n slots.
func NewSlots(n int) *Slots { return &Slots{free: n} }

// take returns when a restore that begins has a slot, which Leave ends, or the cause of ctx when that ends.
func (s *Slots) take(ctx context.Context) (*slot, error) {
	one := &slot{of: s}
	return one, one.enter(ctx, &s.next)
}

func (s *Slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked()
}

// releaseLocked gives a slot to the restore that comes first. The caller holds mu.
func (s *Slots) releaseLocked() {
	for _, queue := range []*[]chan struct{}{&s.back, &s.next} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = (*queue)[1:]
			return
		}
	}
	s.free++
}

// slot is the slot of one restore.
type slot struct {
	of   *Slots
	mu   sync.Mutex
	held bool
}

// Enter returns when the restore has a slot again, before those that begin.
func (s *slot) Enter(ctx context.Context) error { return s.enter(ctx, &s.of.back) }

func (s *slot) enter(ctx context.Context, queue *[]chan struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.mu.Lock()
	if s.of.free > 0 {
		s.of.free--
		s.of.mu.Unlock()
		s.held = true
		return nil
	}
	turn := make(chan struct{})
	*queue = append(*queue, turn)
	s.of.mu.Unlock()
	select {
	case <-turn:
		s.held = true
		return nil
	case <-ctx.Done():
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		if i := slices.Index(*queue, turn); i >= 0 {
			*queue = slices.Delete(*queue, i, i+1)
		} else {
			s.of.releaseLocked() // it has got a slot meanwhile
		}
		return context.Cause(ctx)
	}
}

// Leave gives the slot to another restore.
func (s *slot) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		s.held = false
		s.of.release()
	}
}
