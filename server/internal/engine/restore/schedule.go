package restore

import (
	"container/heap"
	"context"
	"slices"
	"sync"

	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
)

// schedule decides which item begins next. An item begins when what it needs strictly is done, what it needs softly is
// done or waits for something, and no item of an earlier level can begin or is at work. An item that waits for
// something other than a reply of the API server holds up only those that need it.
type schedule struct {
	order *plan.Order
	// needers holds the items that need each item, from the position in begin on; strict ones twice, plus one.
	needers []uint32
	begin   []uint32

	mu      sync.Mutex
	changed chan struct{} // full if an item may have become ready
	lacks   []int32       // of each item: how many needs are not fulfilled
	passed  []bool        // items that no longer hold up others: those that wait or are done
	ready   readyItems
	level   int32 // of the items that may begin, with all earlier ones
	busy    int   // ready items of these levels, and items at work that have not passed
	later   map[int32]int
	left    int // items that are not done
	ended   []bool
	follow  *following // nil for none
}

func newSchedule(o *plan.Order) *schedule {
	n := o.Len()
	s := &schedule{
		order: o, begin: make([]uint32, n+1), changed: make(chan struct{}, 1), lacks: make([]int32, n),
		passed: make([]bool, n), ended: make([]bool, n), later: map[int32]int{}, left: n,
	}
	for i := range n {
		for to := range o.Needs.Of(i) {
			s.begin[to]++
			s.lacks[i]++
		}
	}
	total := uint32(0)
	for i, count := range s.begin {
		s.begin[i], total = total, total+count
	}
	s.needers = make([]uint32, total)
	next := append([]uint32(nil), s.begin...)
	for i := range n {
		for to, strict := range o.Needs.Of(i) {
			needer := uint32(i) << 1 //nolint:gosec // order.MaxItems
			if strict {
				needer++
			}
			s.needers[next[to]] = needer
			next[to]++
		}
	}
	s.level = -1
	for i := range n {
		if s.lacks[i] == 0 {
			s.offer(i)
		}
	}
	return s
}

// take returns an item to begin, and false if none is left or ctx has ended.
func (s *schedule) take(ctx context.Context) (item int, ok bool) {
	for {
		if item, ok, left := s.next(); ok || !left {
			return item, ok
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return 0, false
		}
	}
}

func (s *schedule) next() (item int, ok, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 {
		return 0, false, false
	}
	for s.busy == 0 && len(s.ready.items) > 0 { // no item of an earlier level is at work
		s.level = s.order.Level[s.ready.items[0]]
		s.busy = s.later[s.level]
		delete(s.later, s.level)
	}
	if len(s.ready.items) == 0 || s.order.Level[s.ready.items[0]] > s.level {
		return 0, false, true
	}
	first, _ := heap.Pop(&s.ready).(int32)
	return int(first), true, true
}

// pass records that an item waits for something, so that it holds up only those that need it strictly.
func (s *schedule) pass(item int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passLocked(item)
}

func (s *schedule) passLocked(item int) {
	if s.passed[item] {
		return
	}
	s.passed[item] = true
	s.busy--
	s.fulfil(item, 0)
	s.wake()
}

// done records that an item is done, or has failed.
func (s *schedule) done(item int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passLocked(item)
	s.fulfil(item, 1)
	s.left--
	s.ended[item] = true
	if s.follow != nil {
		s.follow.gone(item)
	}
	s.wake()
}

// isNeeded reports whether other items need an item strictly.
func (s *schedule) isNeeded(item int) bool {
	return slices.ContainsFunc(s.needers[s.begin[item]:s.begin[item+1]], func(needer uint32) bool { return needer&1 == 1 })
}

// isDone reports whether done was called for an item.
func (s *schedule) isDone(item int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[item]
}

// missing returns the needs of an item that are not there yet.
func (s *schedule) missing(item int) (needs []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for to, strict := range s.order.Needs.Of(item) {
		if strict && !s.ended[to] || !strict && !s.passed[to] {
			needs = append(needs, to)
		}
	}
	return needs
}

// fulfil fulfils the soft needs of an item, or the strict ones.
func (s *schedule) fulfil(item int, strict uint32) {
	for _, needer := range s.needers[s.begin[item]:s.begin[item+1]] {
		if needer&1 != strict {
			continue
		}
		by := int(needer >> 1)
		if s.lacks[by]--; s.lacks[by] == 0 {
			if s.follow != nil {
				s.follow.freed(by, item)
			}
			s.offer(by)
		}
	}
}

// offer makes an item ready.
func (s *schedule) offer(item int) {
	s.ready.level = s.order.Level
	heap.Push(&s.ready, int32(item)) //nolint:gosec // order.MaxItems
	if level := s.order.Level[item]; level <= s.level {
		s.busy++
	} else {
		s.later[level]++
	}
}

func (s *schedule) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// readyItems is a heap of items by level and position.
type readyItems struct {
	level []int32
	items []int32
}

func (r *readyItems) Len() int { return len(r.items) }

func (r *readyItems) Less(i, j int) bool {
	a, b := r.items[i], r.items[j]
	if r.level[a] != r.level[b] {
		return r.level[a] < r.level[b]
	}
	return a < b
}

func (r *readyItems) Swap(i, j int) { r.items[i], r.items[j] = r.items[j], r.items[i] }
func (r *readyItems) Push(x any)    { r.items = append(r.items, x.(int32)) } //nolint:forcetypeassert // see offer

func (r *readyItems) Pop() any {
	last := r.items[len(r.items)-1]
	r.items = r.items[:len(r.items)-1]
	return last
}

// turn is the part of a schedule that an item has.
type turn struct {
	schedule *schedule
	item     int
}

type turnKey struct{}

// withTurn returns a context for the restore of an item of a schedule.
func withTurn(ctx context.Context, s *schedule, item int) context.Context {
	return context.WithValue(ctx, turnKey{}, turn{s, item})
}

// passTurn lets others begin before the item of a context is done.
func passTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(turn); ok {
		t.schedule.pass(t.item)
	}
}
