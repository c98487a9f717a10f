package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slots holds the loads of this node whose data is moved, never more than the limit. A load has a slot from before the
// write of InProgress until after the write of its end, for all its attempts. slots is safe for concurrent use.
type slots struct {
	limit int
	wake  func(kind string, object client.Object) // triggers a reconciliation of a load

	mu    sync.Mutex
	taken map[types.UID]*transfer
}

func newSlots(limit int) *slots {
	return &slots{limit: limit, taken: map[types.UID]*transfer{}}
}

// take gives a load a slot. It returns nil if none is free. reserved slots are for loads that an earlier process has
// begun to move.
func (s *slots) take(l *load, reserved int) *transfer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[l.GetUID()] != nil || len(s.taken)+reserved >= s.limit {
		return nil
	}
	return s.add(l, l.attempt())
}

// retake gives a slot to the next attempt of a load, or to a load that an earlier process has begun to move.
func (s *slots) retake(l *load) *transfer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(l, l.attempt())
}

func (s *slots) add(l *load, attempt int) *transfer {
	t := &transfer{kind: l.name, name: l.GetName(), attempt: attempt}
	s.taken[l.GetUID()] = t
	return t
}

// of returns the transfer of a load, or nil.
func (s *slots) of(uid types.UID) *transfer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[uid]
}

// others returns the UIDs of the loads of a kind and a name that have a slot, except uid.
func (s *slots) others(kind, name string, uid types.UID) []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var others []types.UID
	for other, t := range s.taken {
		if t.kind == kind && t.name == name && other != uid {
			others = append(others, other)
		}
	}
	return others
}

// free returns how many loads could take a slot.
func (s *slots) free(reserved int) int { return s.limit - s.moving() - reserved }

// moving returns how many loads have a slot.
func (s *slots) moving() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
}

// release frees the slot of a load whose end is written.
func (s *slots) release(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, uid)
}

// end records how a transfer has ended. released is true if the transfer was dropped before, so that its slot is free
// now.
func (s *slots) end(uid types.UID, t *transfer, o outcome) (released bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.ended = &o
	if t.dropped {
		delete(s.taken, uid)
	}
	return t.dropped
}

// ended returns how a transfer has ended, or nil if it has not.
func (s *slots) ended(t *transfer) *outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.ended
}

// drop stops the transfer of a load that was deleted, or that another client has ended. The slot becomes free when the
// transfer ends; released is true if it has ended already.
func (s *slots) drop(uid types.UID, cause error) (released bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.taken[uid]
	if t == nil {
		return false
	}
	t.dropped = true
	t.stop(cause)
	if t.ended != nil {
		delete(s.taken, uid)
	}
	return t.ended != nil
}

// transfer is one attempt to move the data of a load.
type transfer struct {
	kind, name  string
	attempt     int
	cancel      context.CancelCauseFunc // nil before it has begun
	done, total atomic.Int64
	waits       atomic.Pointer[wait] // why the data is not moved; nil if it is
	former      *string              // message of the load before it had to wait; nil if it does not

	stating    sync.Mutex // held while the status of the load is written
	maintained bool       // by stating: it waits for the maintenance of the repository

	dropped bool     // by slots
	ended   *outcome // by slots
}

// wait is why the data of a load is not moved.
type wait struct {
	why   string
	usual bool // unless it takes long
}

// Wait notes why the data is not moved, "" if it is.
func (t *transfer) Wait(why string) { t.wait(wait{why: why}) }

func (t *transfer) wait(w wait) {
	if w.why == "" {
		t.waits.Store(nil)
		return
	}
	t.waits.Store(&w)
}

// message returns the message that a load should have: why its data is not moved, unless that is usual and does not
// take long, and afterwards the former message.
func (t *transfer) message(l *load, now time.Time) string {
	waits, start := t.waits.Load(), l.status.StartTimestamp
	switch {
	case waits == nil && t.former != nil:
		return *t.former
	case waits == nil || waits.usual && (start == nil || now.Sub(start.Time) < explainAfter):
		return l.status.Message
	}
	if t.former == nil {
		t.former = new(l.status.Message)
	}
	return waits.why
}

// Report notes how many bytes are moved.
func (t *transfer) Report(done, total int64) {
	t.done.Store(done)
	t.total.Store(total)
}

// stop cancels a transfer. It ends soon afterwards.
func (t *transfer) stop(cause error) {
	if t.cancel != nil {
		t.cancel(cause)
	}
}
