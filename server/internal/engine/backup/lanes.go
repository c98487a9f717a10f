package backup

import (
	"context"
	"runtime"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// starters is the number of parallel workers of a run whose actions start operations with keys. Most of them wait for
// the journal, which records all operations about to start in one write. The number of concurrent calls of an action
// is bounded by its turns.
const starters = 192

// lanes are the workers of a run. Blocks without hooks whose actions all take several calls at once go to the parallel
// workers. All others go to the ordered ones, which back up one block after the other as Velero does, or as many at a
// time as the server is configured for.
type lanes struct {
	engine            *engine
	ordered, parallel *workers
}

func (e *engine) newLanes(work func(*block)) lanes {
	most := max(4, 2*runtime.GOMAXPROCS(0)) // such actions mostly wait for others
	for _, n := range e.req.Concurrency {
		most = max(most, n)
	}
	if e.req.Journal != nil &&
		slices.ContainsFunc(e.req.Actions, func(a backupitemaction.Action) bool { return a.Starts() == versioning.Keyed }) {
		most = max(most, starters)
	}
	return lanes{
		engine: e, ordered: newWorkers(cap(e.orderedTurns), work),
		parallel: newWorkers(most, work),
	}
}

// add waits until a block is queued, not until it is done.
func (l lanes) add(b *block) {
	for i := range b.objects {
		if b.hooked || !l.engine.concurrent(b.objects[i].resource.GroupResource()) {
			l.ordered.add(b)
			return
		}
	}
	l.parallel.add(b)
}

// wait returns when all blocks are done. No block may be added after the call.
func (l lanes) wait() {
	l.ordered.wait()
	l.parallel.wait()
}

// concurrent reports whether the objects of a resource have actions that all take several calls at once, and need no
// order. Only one goroutine calls it.
func (e *engine) concurrent(gr schema.GroupResource) bool {
	answer, known := e.parallel[gr]
	if known {
		return answer
	}
	for a := range e.actions.Each(gr) {
		if answer = e.req.Concurrency[a.Name()] > 1; !answer {
			break
		}
	}
	answer = answer && len(e.orderOf(gr)) == 0
	e.parallel[gr] = answer
	return answer
}

// newTurns returns the turns of each action. Every call takes a turn. Actions that take one call at a time share the
// turns of the ordered workers, because additional items may bring a parallel block to them.
func (e *engine) newTurns() map[string]chan struct{} {
	turns := map[string]chan struct{}{}
	for _, a := range e.req.Actions {
		if n := e.req.Concurrency[a.Name()]; n > 1 {
			turns[a.Name()] = make(chan struct{}, n)
		} else {
			turns[a.Name()] = e.orderedTurns
		}
	}
	return turns
}

// turn waits until an action may be called. done must be called after the call.
func (e *engine) turn(ctx context.Context, action string) (done func(), err error) {
	turns := e.turns[action]
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
