package backup

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

// record collects the outcome of a run. It is safe for concurrent use.
type record struct {
	progress func(done, total int)
	results  results.Collector

	mu         sync.Mutex
	done       int
	total      int
	list       *ResourceList
	namespaces map[string]struct{}          // from which objects were collected
	used       map[schema.GroupResource]int // the number of stored objects of a resource
	gaps       []string
}

func newRecord(progress func(done, total int)) *record {
	if progress == nil {
		progress = func(int, int) {}
	}
	return &record{
		progress: progress, list: newResourceList(),
		namespaces: map[string]struct{}{}, used: map[schema.GroupResource]int{},
	}
}

// expect changes the number of objects that the backup will have.
func (r *record) expect(delta int) {
	if delta == 0 {
		return
	}
	r.mu.Lock()
	r.total += delta
	done, total := r.done, max(r.done, r.total)
	r.mu.Unlock()
	r.progress(done, total)
}

// collected records that an object of a namespace was selected.
func (r *record) collected(namespace string) {
	if namespace == "" {
		return
	}
	r.mu.Lock()
	r.namespaces[namespace] = struct{}{}
	r.mu.Unlock()
}

func (r *record) collectedFrom(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.namespaces[namespace]
	return ok
}

// stored records an object that is in the archive. It returns the number of objects there and the number known so far.
func (r *record) stored(gr schema.GroupResource, meta item.Meta) (done, total int) {
	r.mu.Lock()
	r.used[gr]++
	err := r.list.add(meta)
	r.done++
	done, total = r.done, max(r.done, r.total)
	r.mu.Unlock()
	if err != nil {
		r.failed(gr, meta.Namespace, meta.Name, "is not in the list of resources", err)
	}
	r.progress(done, total)
	return done, total
}

// count returns the number of stored objects of a resource.
func (r *record) count(gr schema.GroupResource) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used[gr]
}

// items returns the number of stored objects.
func (r *record) items() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// resources returns the resources that have objects in the backup, sorted.
func (r *record) resources() []schema.GroupResource {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Keys(r.used), func(a, b schema.GroupResource) int {
		return strings.Compare(a.String(), b.String())
	})
}

// gap records a warning about a request of the spec that the server does not support.
func (r *record) gap(warning string) {
	r.mu.Lock()
	r.gaps = append(r.gaps, warning)
	r.mu.Unlock()
}

// failed records an error about an object, or about a resource when name is empty.
func (r *record) failed(gr schema.GroupResource, namespace, name, text string, err error) {
	r.results.Error(namespace, results.Message{Resource: gr.String(), Name: name, Text: text, Err: err}.String())
}

// warned records a warning about an object, or about a resource when name is empty.
func (r *record) warned(gr schema.GroupResource, namespace, name, text string, err error) {
	r.results.Warning(namespace, results.Message{Resource: gr.String(), Name: name, Text: text, Err: err}.String())
}

func (r *record) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list.complete()
	all := r.results.Results()
	return &Result{
		Items: r.done, ResourceList: r.list, Gaps: r.gaps,
		Results: all, Errors: all.Errors.Count(), Warnings: all.Warnings.Count(),
	}
}

// Result is the outcome of a backup. Errors of single objects are in Results only.
type Result struct {
	// Items is the number of objects in the archive.
	Items int
	// ResourceList has all objects of the backup.
	ResourceList *ResourceList
	// Results are the errors and warnings; Errors and Warnings count them.
	Results          results.Results
	Errors, Warnings int
	// Operations are the asynchronous operations that actions started, sorted.
	Operations []operation.Operation
	// Hooks counts the hooks of pods.
	Hooks velerov1.HookStatus
	// Snapshots are the requested snapshots, including failed ones. Volumes records how the data of each volume was
	// backed up, or why it was not. Neither is nil.
	Snapshots []*volumes.Snapshot
	Volumes   []*volumes.VolumeInfo
	// CSI are the snapshots of CSI volumes that actions have taken.
	CSI volumes.CSIFiles
	// Gaps are the warnings that name fields of the spec without effect; see package gaps.
	Gaps []string
	// Collection is the result of a dry run; nil for a real backup.
	Collection *dryrun.Collection
}
