package restore

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/itemaction"
	"github.com/cleat-dev/cleat/server/results"
)

// state is what the items of a restore share.
type state struct {
	mu          sync.Mutex
	progress    func(done, total int)
	done, total int
	defined     map[schema.GroupResource]bool // custom resources that this restore defined
	provisioned map[string]bool               // persistent volumes for whose claims new ones are provisioned
	reported    map[string]bool               // what is in the results already
	operations  []itemaction.Operation
}

func newState(progress func(done, total int)) state {
	if progress == nil {
		progress = func(int, int) {}
	}
	return state{
		progress: progress, defined: map[schema.GroupResource]bool{},
		provisioned: map[string]bool{}, reported: map[string]bool{},
	}
}

// expect adds n items to the number of known ones.
func (e *engine) expect(n int) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.total += n
	e.state.progress(e.state.done, e.state.total)
}

// progressed counts a finished item. unexpected is 1 if expect was not called for it.
func (e *engine) progressed(unexpected int) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.done++
	e.state.total += unexpected
	e.state.progress(e.state.done, e.state.total)
}

// namespaceFailed reports, once, a namespace that cannot be restored into.
func (e *engine) namespaceFailed(name string, err error) {
	if e.firstReport("namespace " + name) {
		e.log.Error("namespace cannot be restored into", "namespace", name, "error", err)
		e.results.RunError(fmt.Sprintf("error restoring namespace %s: %v", name, err))
	}
}

// firstReport reports whether it is called for the first time with what.
func (e *engine) firstReport(what string) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if e.state.reported[what] {
		return false
	}
	e.state.reported[what] = true
	return true
}

func (e *engine) addDefined(gr schema.GroupResource) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.defined[gr] = true
}

func (e *engine) isDefined(gr schema.GroupResource) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return e.state.defined[gr]
}

func (e *engine) addProvisioned(volume string) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.provisioned[volume] = true
}

func (e *engine) isProvisioned(volume string) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return e.state.provisioned[volume]
}

func (e *engine) addOperation(op itemaction.Operation) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.operations = append(e.state.operations, op)
}

func (e *engine) result() *Result {
	list, n := e.tracker.resourceList()
	found := e.results.Results()
	sortMessages(&found.Errors)
	sortMessages(&found.Warnings)
	slices.SortFunc(e.state.operations, itemaction.Operation.Compare)
	return &Result{ResourceList: list, Results: found, Items: n, Operations: e.state.operations}
}

// sortMessages makes the order of messages independent of the order in which workers finished.
func sortMessages(r *results.Result) {
	slices.Sort(r.Velero)
	slices.Sort(r.Cluster)
	for _, messages := range r.Namespaces {
		slices.Sort(messages)
	}
}
