package restore

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
)

// settled holds what became of the items of a plan, in a few bytes for each, because there may be millions. The zero value
// holds nothing.
type settled struct {
	order   *plan.Order
	target  func(namespace string) string
	results []itemResult
	sums    []uidSum
	kinds   map[schema.GroupResource]string // the list keys of the objects of each resource
	merged  map[string]bool                 // namespaces of the cluster into which several are restored
}

// itemResult is what became of an item; 0 if it is not settled.
type itemResult uint8

const (
	isSettled itemResult = 1 << 7
	isThere   itemResult = 1 << 6
)

func (r itemResult) action() action { return action(r &^ (isSettled | isThere)) }
func (r itemResult) exists() bool   { return r&isThere != 0 }

func newSettled(order *plan.Order, namespaces []string, target func(namespace string) string) settled {
	s := settled{order: order, target: target, results: make([]itemResult, order.Len()),
		sums:  make([]uidSum, order.Len()),
		kinds: map[schema.GroupResource]string{}, merged: map[string]bool{}}
	seen := map[string]bool{}
	for _, namespace := range namespaces {
		to := target(namespace)
		s.merged[to] = s.merged[to] || seen[to]
		seen[to] = true
	}
	return s
}

// position returns the position of an item in the plan.
func (s *settled) position(e archive.Entry) (at int, ok bool) {
	if s.order == nil {
		return 0, false
	}
	return s.order.Position(e)
}

// find returns what became of an item, and false if it is not settled.
func (s *settled) find(e archive.Entry) (itemResult, bool) {
	at, ok := s.position(e)
	if !ok {
		return 0, false
	}
	return s.results[at], s.results[at] != 0
}

// put records what became of an item. It reports whether that can be found by the item: not if the item is not in the
// plan, if others are restored as the same object, or if its kind is not that of the others of its resource.
func (s *settled) put(key itemKey, e archive.Entry, c *claim) bool {
	at, ok := s.position(e)
	if !ok || s.merged[key.namespace] {
		return false
	}
	if kind, known := s.kinds[e.GroupResource]; known && kind != key.listKey {
		return false
	}
	s.kinds[e.GroupResource] = key.listKey
	s.sums[at] = c.sum
	s.results[at] = isSettled | itemResult(c.action)
	if c.exists {
		s.results[at] |= isThere
	}
	return true
}
