package restore

import (
	"slices"

	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

// Result is the outcome of a restore.
type Result struct {
	// ResourceList has each item with what became of it.
	ResourceList *ResourceList
	// Results are the errors and warnings, sorted.
	Results results.Results
	// Operations are the asynchronous operations that actions started, sorted.
	Operations []operation.Operation
	// FromSnapshots are the persistent volumes that were made from snapshots.
	FromSnapshots []volumes.RestoreVolumeInfo
	// Gaps are the warnings that name fields of the spec without effect; see package gaps.
	Gaps []string
}

// result returns the outcome, and forgets the items.
func (e *engine) result() *Result {
	e.warnOfServer()
	e.account.complete()
	e.schedule = nil
	list := e.tracker.take()
	found := e.results.Results()
	sortMessages(&found.Errors)
	sortMessages(&found.Warnings)
	return &Result{ResourceList: list, Results: found, Operations: e.operations.Complete(), Gaps: e.state.gaps}
}

// sortMessages makes the order of messages independent of the order in which workers finished.
func sortMessages(r *results.Result) {
	slices.Sort(r.Velero)
	slices.Sort(r.Cluster)
	for _, messages := range r.Namespaces {
		slices.Sort(messages)
	}
}
