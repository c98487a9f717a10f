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
	open   *openClaim
	source text // namespace in the backup

	action action
	exists bool // in the cluster, so that other items may rely on it
}

// openClaim is the part of a claim that it has until it is finished.
type openClaim struct {
	owner *worker
	done  chan struct{}
}

// text stands for one of the strings that many items have.
type text uint32

// texts are strings that many items have.
type texts struct {
	known map[string]text
	all   []string
}

func (t *texts) of(s string) text {
	id, ok := t.known[s]
	if !ok {
		id = text(len(t.all)) //nolint:gosec // fewer than items
		t.known[s], t.all = id, append(t.all, s)
	}
	return id
}

// shortKey is an itemKey.
type shortKey struct {
	listKey, namespace text
	name               string
}

// tracker ensures that each item is restored once, even if many others need it, and records the result.
type tracker struct {
	mu     sync.Mutex
	texts  texts
	claims map[shortKey]*claim
	names  map[shortKey]string // of objects that have another one in the cluster
}

func newTracker() *tracker {
	return &tracker{texts: texts{known: map[string]text{}}, claims: map[shortKey]*claim{}, names: map[shortKey]string{}}
}

// short returns a key in its short form. The caller holds mu.
func (t *tracker) short(key itemKey) shortKey {
	return shortKey{t.texts.of(key.listKey), t.texts.of(key.namespace), key.name}
}

// claim claims an item for a worker. If the item is already claimed, it returns that claim and false.
func (t *tracker) claim(w *worker, key itemKey, source string) (c *claim, claimed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	short := t.short(key)
	if c := t.claims[short]; c != nil {
		return c, false
	}
	c = &claim{source: t.texts.of(source), open: &openClaim{owner: w, done: make(chan struct{})}}
	t.claims[short] = c
	return c, true
}

// sourceOf returns the namespace of a claimed item in the backup.
func (t *tracker) sourceOf(c *claim) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.texts.all[c.source]
}

// named records the name of the object of an item in the cluster.
func (t *tracker) named(key itemKey, name string) {
	if name == key.name || name == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[t.short(key)] = name
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
	if short := t.short(key); t.claims[short] == nil {
		t.claims[short] = &claim{action: made, exists: made == actionCreated}
	}
}

// created reports whether the restore has created an item.
func (t *tracker) created(key itemKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.claims[t.short(key)]
	return c != nil && c.open == nil && c.action == actionCreated
}

// take returns the results in the form of Velero's file: by apiVersion/kind, sorted, each item with its action. The
// second result is the number of items. The tracker is empty afterwards.
func (t *tracker) take() (map[string][]string, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts, n := map[text]int{}, 0
	for key, c := range t.claims {
		if c.action != actionNone {
			counts[key.listKey]++
			n++
		}
	}
	list := map[string][]string{}
	for listKey, count := range counts {
		list[t.texts.all[listKey]] = make([]string, 0, count)
	}
	for key, c := range t.claims {
		if c.action == actionNone {
			continue
		}
		entry := cmp.Or(t.names[key], key.name) + "(" + c.action.String() + ")"
		if namespace := t.texts.all[key.namespace]; namespace != "" {
			entry = namespace + "/" + entry
		}
		listKey := t.texts.all[key.listKey]
		list[listKey] = append(list[listKey], entry)
	}
	t.claims, t.names = nil, nil
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
