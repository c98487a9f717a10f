package backup

import (
	"context"
	"sync"

	"github.com/cleat-dev/cleat/server/discovery"
)

// object is one object on its way into the archive.
type object struct {
	resource discovery.Resource
	raw      []byte // as in a list, where it may lack apiVersion and kind
	listed   bool   // selected by the filters, rather than asked for by an action
	must     bool   // an action insists on it: filters do not count
}

// block is a group of objects that are backed up together, one after the other, by one worker.
type block struct {
	items []object
	done  func()
}

// workers back up blocks. Blocks are begun in the order in which they were added.
type workers struct {
	blocks chan block
	group  sync.WaitGroup
}

func newWorkers(n int, work func(block)) *workers {
	w := &workers{blocks: make(chan block, max(n, 10))}
	for range n {
		w.group.Go(func() {
			for b := range w.blocks {
				work(b)
			}
		})
	}
	return w
}

// add waits for a free place, not for the block to be done.
func (w *workers) add(b block) { w.blocks <- b }

// wait returns when all blocks are done. Nothing may be added any more.
func (w *workers) wait() {
	close(w.blocks)
	w.group.Wait()
}

// block backs up the objects of a block. It fails only for what ends the whole backup.
func (e *engine) block(ctx context.Context, b block) error {
	for _, o := range b.items {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := e.object(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
