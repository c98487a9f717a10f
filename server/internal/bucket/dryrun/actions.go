package dryrun

import (
	"maps"
	"sync"

	"github.com/cleat-dev/cleat/versioning"
)

// Actions decides which actions a dry run calls: those without side effects. It counts the items for which it does not
// call the others. A real run has nil, and calls all. It is safe for concurrent use.
type Actions struct {
	harmless func(action string) bool

	mu        sync.Mutex
	notCalled map[string]int
}

// NewActions returns the actions of one dry run. harmless reports whether an action has no side effects.
func NewActions(harmless func(action string) bool) *Actions {
	return &Actions{harmless: harmless, notCalled: map[string]int{}}
}

// MayCall reports whether to call an action for an item, and counts the item if not. Actions that start operations are
// never called.
func (a *Actions) MayCall(action interface {
	Name() string
	Starts() versioning.Starts
}) bool {
	if a == nil || action.Starts() != versioning.Keyed && a.harmless(action.Name()) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notCalled[action.Name()]++
	return false
}

// NotCalled returns the actions that were not called, each with the number of items that it applies to.
func (a *Actions) NotCalled() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.notCalled)
}
