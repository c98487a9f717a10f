package restore

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// What became of an item, as the list of restored resources says it.
const (
	actionCreated = "created"
	actionUpdated = "updated"
	actionFailed  = "failed"
	actionSkipped = "skipped"
)

// itemKey is an item in the cluster that is restored into.
type itemKey struct {
	listKey   string // "apps/v1/Deployment"
	namespace string
	name      string
}

// claim is the one restore of one item. Its fields other than done are written by the owner before done is
// closed.
type claim struct {
	key    itemKey
	source string // namespace in the backup
	owner  *worker
	done   chan struct{}

	action string
	name   string // that the object got in the cluster
	exists bool   // in the cluster, so that others may rely on it
}

// worker is one goroutine of the pool. Additional items are restored by the worker that needs them, so
// it may hold several claims at once.
type worker struct {
	waitsFor *claim
}

// tracker sees to it that each item is restored once, whoever asks for it, and remembers what became of it.
type tracker struct {
	mu     sync.Mutex
	claims map[itemKey]*claim
}

func newTracker() *tracker { return &tracker{claims: map[itemKey]*claim{}} }

// claim takes an item for a worker, or returns the claim that exists with mine false.
func (t *tracker) claim(w *worker, key itemKey, source string) (c *claim, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.claims[key]; c != nil {
		return c, false
	}
	c = &claim{key: key, source: source, owner: w, done: make(chan struct{}), name: key.name}
	t.claims[key] = c
	return c, true
}

// finish ends a claim.
func (t *tracker) finish(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.owner = nil
	close(c.done)
}

// wait returns when another worker is done with an item. Items that ask for each other in a circle are not
// waited for: whoever closes the circle goes on, as if the item were not there yet.
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

// add records an item that was restored without a claim, like a namespace made for others.
func (t *tracker) add(key itemKey, action string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claims[key] == nil {
		done := make(chan struct{})
		close(done)
		t.claims[key] = &claim{key: key, done: done, action: action, name: key.name, exists: action == actionCreated}
	}
}

// resourceList is the list of what was done, in the shape of Velero's file: by apiVersion/kind, sorted,
// each with its action. The second result is the number of items.
func (t *tracker) resourceList() (map[string][]string, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := map[string][]string{}
	n := 0
	for _, c := range t.claims {
		if c.action == "" {
			continue // given up in the middle
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
