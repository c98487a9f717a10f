package restore

import (
	"context"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/server/internal/engine/restore/pace"
)

// maxParked is the maximum number of parked items. When it is reached, no others are begun. It bounds the memory of
// waiting items.
const maxParked = 512

// pool limits the number of items that are restored at the same time. An item that has to wait for something other
// than a reply of the API server parks: another item takes its slot until it can continue.
type pool struct {
	begun  chan struct{} // an element for each item that is restored or parked
	active *pace.Limit   // of items that are restored
	slot   *slot         // of the whole restore
}

// newPool returns a pool of so many workers, or of as many as are fastest if workers is 0. of is the slot of the
// restore, nil for none.
func newPool(workers int, of Slot) pool {
	active := pace.NewAdaptive()
	if workers > 0 {
		active = pace.NewFixed(workers)
	}
	return pool{begun: make(chan struct{}, active.Most()+maxParked), active: active, slot: &slot{of: of}}
}

// begin returns true when an item may be begun, and false when ctx has ended.
func (p pool) begin(ctx context.Context) bool {
	select {
	case p.begun <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	p.slot.work(ctx)
	p.active.Enter()
	return true
}

// end is called when an item is done.
func (p pool) end() {
	p.active.Leave(true)
	p.slot.rest()
	<-p.begun
}

// patience is how long a parked item holds up the items of later levels that do not need it.
const patience = time.Second

// park calls wait, and gives the caller's slot to another item meanwhile. If wait takes longer than patience, the items
// of later levels begin that do not need the item of the context.
func (p pool) park(ctx context.Context, wait func() error) error {
	timer := time.AfterFunc(patience, func() { passTurn(ctx) })
	defer timer.Stop()
	p.active.Leave(false)
	ended := p.slot.wait()
	p.slot.rest()
	defer func() {
		ended()
		p.slot.work(ctx)
		p.active.Enter()
	}()
	return wait()
}

// each calls do for all items, as many at once as the pool allows, and returns when all are done. After an error, it
// calls do for no more items, and returns the error.
func each[T any](ctx context.Context, p pool, items []T, do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, item := range items {
		if ctx.Err() != nil || !p.begin(ctx) {
			break
		}
		group.Go(func() {
			defer p.end()
			if ctx.Err() != nil {
				return
			}
			if err := do(atWork(ctx), item); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return causeOf(ctx)
}
