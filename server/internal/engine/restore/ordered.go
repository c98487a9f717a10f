package restore

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// plan collects the items of all resources, and their order. Definitions come first, whatever the priorities are.
func (e *engine) plan() (*plan.Order, error) {
	fixed := !reflect.DeepEqual(e.options.Priorities, plan.DefaultPriorities())
	made := plan.NewOrder(e.snapshot.Load(), fixed)
	e.expect(e.definitions.objects.Len())
	made.AddLevel(crdsResource, 0, e.definitions.objects)
	for level, gr := range e.options.Priorities.Order(e.archive.Resources(), e.snapshot.Load()) {
		if gr == crdsResource {
			continue
		}
		objects, err := e.collect(gr)
		if err != nil {
			return nil, err
		}
		e.expect(objects.Len())
		made.AddLevel(gr, level+1, objects)
	}
	if err := made.AddGates(e.archive, e.selection.Target); err != nil {
		return nil, err
	}
	if e.graph != nil {
		for item, err := range e.graph(made.Has) {
			if err != nil {
				e.warn(fmt.Sprintf("objects are restored in the order of their resources, because the graph of the backup "+
					"cannot be read: %v", err))
				break
			}
			made.AddEdges(item)
		}
	}
	made.Complete()
	if n := made.Calling(); n > 0 && e.dry == nil {
		e.log.Info("the API server calls services because of objects that are restored; all waits for what is not ready "+
			"share their time", "objects", n, "time", e.options.ResourceTimeout.String())
	}
	for _, cycle := range made.Cycles {
		const few = 10
		var broken []string
		for _, pair := range cycle.Broken[:min(few, len(cycle.Broken))] {
			broken = append(broken, fmt.Sprintf("%s before %s", pair[0].Path(), pair[1].Path()))
		}
		e.log.Info("objects need each other, so that some are restored before what they need", "items", len(cycle.Items),
			"broken", broken, "others", len(cycle.Broken)-len(broken))
	}
	return made, nil
}

// restoreInOrder restores the items of a plan and returns when all are done.
func (e *engine) restoreInOrder(ctx context.Context, helper *discovery.Helper, planned *plan.Order) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	s := newSchedule(planned)
	e.schedule = s
	e.account.planned(e, planned, s)
	e.tracker.planned(planned, e.archive.Namespaces(), e.selection.Target)
	begun := map[schema.GroupResource]*counted{}
	for {
		item, ok := s.take(ctx)
		if !ok {
			break
		}
		entry := planned.Item(item)
		gr := entry.GroupResource
		if begun[gr] == nil {
			begin, end := planned.Span(gr)
			begun[gr] = &counted{left: end - begin, since: time.Now()}
			if err := e.lookAgain(ctx, helper, gr); err != nil {
				cancel(err)
				break
			}
		}
		of := begun[gr]
		if !e.pool.begin(ctx) {
			break
		}
		group.Go(func() {
			var err error
			if ctx.Err() == nil {
				_, err = e.restoreEntry(atWork(withTurn(ctx, s, item)), &worker{}, entry, selectedByFilters)
			}
			e.pool.end()
			if err == nil {
				err = e.awaitReady(ctx, s, item)
			}
			if err != nil {
				cancel(err)
			}
			s.done(item)
			of.done(func(n int, seconds float64) {
				e.log.Info("restored a resource", "resource", gr.String(), "items", n, "seconds", seconds)
			})
		})
	}
	group.Wait()
	return causeOf(ctx)
}

// counted counts the items of a resource.
type counted struct {
	mu    sync.Mutex
	ended int
	left  int
	since time.Time
}

// done counts an item that is done, and calls last for the last one.
func (c *counted) done(last func(n int, seconds float64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended++
	if c.left--; c.left == 0 {
		last(c.ended, time.Since(c.since).Seconds())
	}
}
