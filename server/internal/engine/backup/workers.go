package backup

import (
	"sync"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// object is one object to be archived.
type object struct {
	resource discovery.Resource
	raw      []byte // as in a list, where apiVersion and kind may be missing
	listed   bool   // selected by the filters, not requested by an action
	chosen   bool   // listed, and selected for a reason other than its labels and name
	must     bool   // an action insists on it: filters do not apply
	included manifest.Inclusion

	// Set if there are item block actions.
	block           *block // contains the object, or the one that requested it; nil if it is alone
	assigned        bool   // to its block
	key             key    // if assigned
	namespace, name string // if it is in the block because of a relation
	missing         bool   // a related object that could not be read
}

// block is a group of objects that one worker backs up, one after the other.
type block struct {
	objects []object
	related int64 // bytes of objects that were read because of relations
	hooked  bool  // there is a pod with hooks
	done    func()
}

// find returns the object with a key as it was read for the block, or nil if it was not.
func (b *block) find(k key) []byte {
	if b == nil {
		return nil
	}
	for i := range b.objects {
		if o := &b.objects[i]; o.assigned && o.key == k {
			return o.raw
		}
	}
	return nil
}

// workers back up blocks. They begin blocks in the order of their addition.
type workers struct {
	blocks chan *block
	group  sync.WaitGroup
}

func newWorkers(n int, work func(*block)) *workers {
	w := &workers{blocks: make(chan *block, max(n, 10))}
	for range n {
		w.group.Go(func() {
			for b := range w.blocks {
				work(b)
			}
		})
	}
	return w
}

// add waits until the block is queued, not until it is done.
func (w *workers) add(b *block) { w.blocks <- b }

// wait returns when all blocks are done. No block may be added after the call.
func (w *workers) wait() {
	close(w.blocks)
	w.group.Wait()
}
