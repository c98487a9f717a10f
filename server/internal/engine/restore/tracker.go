package restore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
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

// claim is the restore of one item. There is one for each item until the restore ends, so it is small. The owner of an
// open claim writes the fields below open.
type claim struct {
	source string // namespace in the backup
	open   *openClaim

	action action
	exists bool // in the cluster, so that other items may rely on it
}

// openClaim is the part of a claim that it has until it is finished.
type openClaim struct {
	owner *worker
	done  chan struct{}
}

// tracker ensures that each item is restored once, even if many others need it, and records the result.
type tracker struct {
	mu       sync.Mutex
	claims   map[itemKey]*claim
	names    map[itemKey]string // of objects that have another one in the cluster
	listKeys map[string]string  // one copy of each
}

func newTracker() *tracker {
	return &tracker{claims: map[itemKey]*claim{}, names: map[itemKey]string{}, listKeys: map[string]string{}}
}

// claim claims an item for a worker. If the item is already claimed, it returns that claim and false.
func (t *tracker) claim(w *worker, key itemKey, source string) (c *claim, claimed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.claims[key]; c != nil {
		return c, false
	}
	c = &claim{source: source, open: &openClaim{owner: w, done: make(chan struct{})}}
	t.put(key, c)
	return c, true
}

// put records a claim. The caller holds mu.
func (t *tracker) put(key itemKey, c *claim) {
	known, ok := t.listKeys[key.listKey]
	if !ok {
		known = key.listKey
		t.listKeys[known] = known
	}
	key.listKey = known
	t.claims[key] = c
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
	close(c.open.done)
	c.open = nil
}

// isFinished reports whether wait returns at once.
func (t *tracker) isFinished(c *claim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.open == nil
}

// wait returns when the owner of a claim has finished it. If items need each other in a cycle, the worker that would
// close the cycle does not wait, as if the item did not exist yet.
func (t *tracker) wait(ctx context.Context, w *worker, c *claim) (exists bool, err error) {
	t.mu.Lock()
	if c.open == nil {
		t.mu.Unlock()
		return c.exists, nil
	}
	done := c.open.done
	for next := c; next != nil && next.open != nil; next = next.open.owner.waitsFor {
		if next.open.owner == w {
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
		t.put(key, &claim{action: made, exists: made == actionCreated})
	}
}

// created reports whether the restore has created an item.
func (t *tracker) created(key itemKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.claims[key]
	return c != nil && c.open == nil && c.action == actionCreated
}

// resourceList returns the results in the form of Velero's file: by apiVersion/kind, sorted, each item with its
// action. The second result is the number of items.
func (t *tracker) resourceList() (map[string][]string, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts, n := map[string]int{}, 0
	for key, c := range t.claims {
		if c.action != actionNone {
			counts[key.listKey]++
			n++
		}
	}
	list := map[string][]string{}
	for listKey, count := range counts {
		list[listKey] = make([]string, 0, count)
	}
	for key, c := range t.claims {
		if c.action == actionNone {
			continue
		}
		text := cmp.Or(t.names[key], key.name) + "(" + c.action.String() + ")"
		if key.namespace != "" {
			text = key.namespace + "/" + text
		}
		list[key.listKey] = append(list[key.listKey], text)
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
