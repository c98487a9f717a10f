package policy

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

const (
	// maxQueued is the maximum size in bytes of the items that wait for one writer.
	maxQueued = 16 << 20
	// itemOverhead is added to the size of each item's texts. It bounds the number of items.
	itemOverhead = 1 << 10
	// A batch, which is one message to the writer, is full with this number of items or bytes. A message to a process
	// costs more than an item.
	batchItems = 64
	batchBytes = 256 << 10
)

// batch holds the items of one message to the writer.
type batch struct {
	items []*manifestwriter.Item
	size  int64
}

// pending holds the items that wait for a writer. One goroutine adds items, another one takes them.
type pending struct {
	ctx      context.Context //nolint:containedctx // of the writer; its end makes add drop items
	cancel   context.CancelCauseFunc
	waiting  chan batch
	next     batch // not full yet
	space    *semaphore.Weighted
	patience time.Duration // how long add waits for space in total
	left     time.Duration // of patience
}

func newPending(ctx context.Context, cancel context.CancelCauseFunc, patience time.Duration) *pending {
	return &pending{
		ctx: ctx, cancel: cancel, waiting: make(chan batch, maxQueued/itemOverhead),
		space: semaphore.NewWeighted(maxQueued), patience: patience, left: patience,
	}
}

// tooSlowError is the failure of a writer for which the backup has waited too long.
type tooSlowError struct{ limit time.Duration }

func (e *tooSlowError) Error() string {
	return fmt.Sprintf("it takes items so slowly that the backup has waited for it for %s in all, its deadline", e.limit)
}

// add adds an item. If there is no space, it waits for the writer. When the total of these waits is too long, it ends
// the writer.
func (p *pending) add(item *manifestwriter.Item) {
	size := sizeOf(item)
	if p.ctx.Err() == nil && !p.space.TryAcquire(size) {
		p.flush() // the items of the next batch take space, too
		began := time.Now()
		ctx, cancel := context.WithTimeoutCause(p.ctx, p.left, &tooSlowError{p.patience})
		err := p.space.Acquire(ctx, size)
		cause := context.Cause(ctx)
		cancel()
		if err != nil {
			p.cancel(cause)
			return
		}
		p.left -= time.Since(began)
	}
	p.next.items, p.next.size = append(p.next.items, item), p.next.size+size
	if len(p.next.items) == batchItems || p.next.size >= batchBytes {
		p.flush()
	}
}

// flush passes the next batch to the writer.
func (p *pending) flush() {
	if p.ctx.Err() == nil && len(p.next.items) > 0 {
		p.waiting <- p.next // never blocks: the space bounds the number of items
	}
	p.next = batch{}
}

// batches yields batches of items until close is called.
func (p *pending) batches(yield func([]*manifestwriter.Item) bool) {
	for next := range p.waiting {
		if !yield(next.items) {
			return
		}
		p.space.Release(next.size)
	}
}

// close ends the items.
func (p *pending) close() {
	p.flush()
	close(p.waiting)
}

// sizeOf returns the approximate size in memory of an item, in bytes.
func sizeOf(item *manifestwriter.Item) int64 {
	size := itemOverhead + len(item.Object)
	for _, texts := range []map[string]string{item.Labels, item.Annotations} {
		for key, value := range texts {
			size += len(key) + len(value)
		}
	}
	for _, edge := range item.References {
		size += itemOverhead/4 + len(edge.Path) + len(edge.To.Name)
	}
	return min(int64(size), maxQueued)
}
