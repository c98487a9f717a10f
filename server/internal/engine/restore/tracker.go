package restore

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
)

// action is what a restore has done with an item, as Velero's list of restored resources has it.
type action uint8

const (
	actionNone action = iota // the restore has ended before the item
	actionCreated
	actionUpdated
	actionFailed
	actionSkipped
)

// String returns the action as the list has it; empty for actionNone.
func (a action) String() string { return [...]string{"", "created", "updated", "failed", "skipped"}[a] }

// itemKey identifies an item in the target cluster.
type itemKey struct {
	listKey   string // "apps/v1/Deployment"
	namespace string
	name      string
}

func (k itemKey) kind() string { return k.listKey[strings.LastIndexByte(k.listKey, '/')+1:] }

// claim is the restore of one item. Its owner writes action and exists.
type claim struct {
	source   string // namespace in the backup
	resource schema.GroupResource
	owner    *worker
	done     chan struct{} // closed when the owner has finished; nil afterwards

	action action
	exists bool // in the cluster, so that other items may rely on it
	sum    uidSum
}

// tracker ensures that each item is restored once, even if many others need it, and records the results.
type tracker struct {
	mu     sync.Mutex
	claims map[itemKey]*claim // of items at work, and of those that are not settled
	names  map[itemKey]string // of objects that have another one in the cluster
	settled
}

func newTracker() *tracker {
	return &tracker{claims: map[itemKey]*claim{}, names: map[itemKey]string{}}
}

// planned records the order of the restore. Before, no item can be settled.
func (t *tracker) planned(order *plan.Order, namespaces []string, target func(namespace string) string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled = newSettled(order, namespaces, target)
}

// claim claims an item for a worker. If the item is already claimed, it returns that claim and false.
func (t *tracker) claim(w *worker, key itemKey, e archive.Entry) (c *claim, claimed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.claims[key]; c != nil {
		return c, false
	}
	if result, ok := t.find(e); ok {
		return &claim{source: e.Namespace, action: result.action(), exists: result.exists()}, false
	}
	c = &claim{source: e.Namespace, resource: e.GroupResource, owner: w, done: make(chan struct{})}
	t.claims[key] = c
	return c, true
}

// settle forgets the finished claim of an item, but for its result, which is final.
func (t *tracker) settle(key itemKey, e archive.Entry, c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.put(key, e, c) {
		delete(t.claims, key)
	}
}

// named records the name of the object of an item in the cluster.
func (t *tracker) named(key itemKey, name string) {
	if name == key.name || name == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[key] = name
}

func (t *tracker) finish(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(c.done)
	c.done = nil
}

// isFinished reports whether wait returns at once.
func (t *tracker) isFinished(c *claim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.done == nil
}

// wait returns when the owner of a claim has finished it. If items need each other in a cycle, the worker that would
// close the cycle does not wait, as if the item did not exist yet.
func (t *tracker) wait(ctx context.Context, w *worker, c *claim) (exists bool, err error) {
	t.mu.Lock()
	if c.done == nil {
		t.mu.Unlock()
		return c.exists, nil
	}
	done := c.done
	for next := c; next != nil && next.done != nil; next = next.owner.waitsFor {
		if next.owner == w {
			t.mu.Unlock()
			return false, nil
		}
	}
	w.waitsFor = c
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		w.waitsFor = nil
		t.mu.Unlock()
	}()
	select {
	case <-done:
		return c.exists, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// add records an item that was restored without a claim, such as the namespace of another item.
func (t *tracker) add(key itemKey, made action) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claims[key] == nil {
		t.claims[key] = &claim{action: made, exists: made == actionCreated}
	}
}

// created reports whether the restore has created an item.
func (t *tracker) created(key itemKey, e archive.Entry) bool {
	made, _ := t.result(key, e)
	return made == actionCreated
}

// existed reports whether an item was in the cluster before the restore.
func (t *tracker) existed(key itemKey, e archive.Entry) bool {
	made, exists := t.result(key, e)
	return exists && made != actionCreated
}

// result returns what the restore has done with an item, and whether that is in the cluster.
func (t *tracker) result(key itemKey, e archive.Entry) (made action, exists bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.claims[key]; c != nil {
		if c.done != nil {
			return actionNone, false
		}
		return c.action, c.exists
	}
	result, _ := t.find(e)
	return result.action(), result.exists()
}

// take returns the results. The tracker is empty afterwards.
func (t *tracker) take() *ResourceList {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := newResourceList(t.settled, t.claims, t.names)
	t.claims, t.names, t.settled = nil, nil, settled{}
	return list
}

// worker restores one item, and before it the additional items that it needs. So it may hold several claims at the
// same time.
type worker struct {
	waitsFor *claim
}
