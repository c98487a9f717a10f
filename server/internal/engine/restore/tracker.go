package restore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
)

// The results for an item, as in Velero's list of restored resources.
const (
	actionCreated = "created"
	actionUpdated = "updated"
	actionFailed  = "failed"
	actionSkipped = "skipped"
)

// itemKey identifies an item in the target cluster.
type itemKey struct {
	listKey   string // "apps/v1/Deployment"
	namespace string
	name      string
}

func (k itemKey) kind() string { return k.listKey[strings.LastIndexByte(k.listKey, '/')+1:] }

// claim is the restore of one item. Its owner writes the fields below done before done is closed.
type claim struct {
	key    itemKey
	source string // namespace in the backup
	owner  *worker
	done   chan struct{}

	action string
	name   string // of the object in the cluster
	exists bool   // in the cluster, so that other items may rely on it
}

func (c *claim) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// tracker ensures that each item is restored once, even if many others need it, and records the result.
type tracker struct {
	mu     sync.Mutex
	claims map[itemKey]*claim
}

func newTracker() *tracker { return &tracker{claims: map[itemKey]*claim{}} }

// claim claims an item for a worker. If the item is already claimed, it returns that claim and false.
func (t *tracker) claim(w *worker, key itemKey, source string) (c *claim, claimed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.claims[key]; c != nil {
		return c, false
	}
	c = &claim{key: key, source: source, owner: w, done: make(chan struct{}), name: key.name}
	t.claims[key] = c
	return c, true
}

func (t *tracker) finish(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.owner = nil
	close(c.done)
}

// wait returns when the owner of a claim has finished it. If items need each other in a cycle, the worker that would
// close the cycle does not wait, as if the item did not exist yet.
func (t *tracker) wait(ctx context.Context, w *worker, c *claim) (exists bool, err error) {
	t.mu.Lock()
	for next := c; next != nil && next.owner != nil; next = next.owner.waitsFor {
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
	case <-c.done:
		return c.exists, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// add records an item that was restored without a claim, such as the namespace of another item.
func (t *tracker) add(key itemKey, action string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claims[key] == nil {
		done := make(chan struct{})
		close(done)
		t.claims[key] = &claim{key: key, done: done, action: action, name: key.name, exists: action == actionCreated}
	}
}

// created reports whether the restore has created an item.
func (t *tracker) created(key itemKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.claims[key]
	return c != nil && c.isDone() && c.action == actionCreated
}

// resourceList returns the results in the form of Velero's file: by apiVersion/kind, sorted, each item with its
// action. The second result is the number of items.
func (t *tracker) resourceList() (map[string][]string, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := map[string][]string{}
	n := 0
	for _, c := range t.claims {
		if c.action == "" {
			continue // the restore ended before the item
		}
		n++
		text := cmp.Or(c.name, c.key.name)
		if c.key.namespace != "" {
			text = c.key.namespace + "/" + text
		}
		list[c.key.listKey] = append(list[c.key.listKey], text+"("+c.action+")")
	}
	for _, entries := range list {
		slices.Sort(entries)
	}
	return list, n
}

// worker restores one item, and before it the additional items that it needs. So it may hold several claims at the
// same time.
type worker struct {
	waitsFor *claim
}
