package restore

import (
	"context"
)

// maxParked is the maximum number of parked items. When it is reached, no others are begun. It bounds the memory of
// waiting items.
const maxParked = 512

// pool limits the number of items that are restored at the same time. An item that has to wait for something other
// than a reply of the API server parks: another item takes its slot until it can continue.
type pool struct {
	begun  chan struct{} // an element for each item that is restored or parked
	active chan struct{} // an element for each item that is restored
}

func newPool(workers int) pool {
	return pool{begun: make(chan struct{}, workers+maxParked), active: make(chan struct{}, workers)}
}

// begin returns true when an item may be begun, and false when ctx has ended.
func (p pool) begin(ctx context.Context) bool {
	select {
	case p.begun <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	p.active <- struct{}{}
	return true
}

// end is called when an item is done.
func (p pool) end() {
	<-p.active
	<-p.begun
}

// park calls wait, and gives the caller's slot to another item meanwhile.
func (p pool) park(wait func() error) error {
	<-p.active
	defer func() { p.active <- struct{}{} }()
	return wait()
}
