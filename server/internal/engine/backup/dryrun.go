package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// countersAtOnce is the number of resources that a dry run counts at the same time.
const countersAtOnce = 4

// dryRun holds the results of a dry run other than the items. It is nil for a real backup.
type dryRun struct {
	mu      sync.Mutex
	leftOut map[leftOut]int
	total   map[schema.GroupResource]int // objects in the cluster, as far as they could be counted
	counted sync.WaitGroup
}

// leftOut is the reason why objects of a resource are not in the backup.
type leftOut struct {
	resource schema.GroupResource
	reason   string
}

func newDryRun() *dryRun {
	return &dryRun{leftOut: map[leftOut]int{}, total: map[schema.GroupResource]int{}}
}

// nowhere replaces the archive.
type nowhere struct{}

// Item implements itemWriter.
func (nowhere) Item(schema.GroupResource, string, bool, string, string, []byte) error { return nil }

// leaveOut records a listed object that is not in the backup.
func (e *engine) leaveOut(gr schema.GroupResource, reason string) {
	if e.dry == nil {
		return
	}
	e.dry.mu.Lock()
	defer e.dry.mu.Unlock()
	e.dry.leftOut[leftOut{gr, reason}]++
}

// countUnlisted begins to count the objects of resources that the backup does not list completely. In a backup of
// everything there are very few. Only a few requests are sent at once, because all requests of the client share a rate
// limit.
func (e *engine) countUnlisted(ctx context.Context) {
	turns := make(chan struct{}, countersAtOnce)
	for res := range e.unlisted() {
		e.dry.counted.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			n, err := e.count(ctx, res)
			if err != nil {
				e.log.Debug("cannot count objects", "resource", res.GroupResource(), "error", err)
				return
			}
			e.dry.mu.Lock()
			defer e.dry.mu.Unlock()
			e.dry.total[res.GroupResource()] = n
		})
	}
}

// count returns the number of objects of a resource in the cluster. The API server sends at most one object for it.
func (e *engine) count(ctx context.Context, res discovery.Resource) (int, error) {
	reply, err := e.client.Do(ctx, kubeapi.Request{
		Resource: res.GroupVersionResource(), Query: url.Values{"limit": {"1"}}, Accept: kubeapi.MetadataList,
	})
	if err != nil {
		return 0, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(reply.Body, &list); err != nil {
		return 0, err
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
}

// collection returns the objects that the backup would contain, and those that it would not.
func (e *engine) collection() *dryrun.Collection {
	if e.dry == nil || e.sel == nil {
		return nil
	}
	rows := map[schema.GroupResource]*dryrun.Resource{}
	row := func(gr schema.GroupResource) *dryrun.Resource {
		if rows[gr] == nil {
			rows[gr] = &dryrun.Resource{Resource: gr.String(), Items: e.record.count(gr)}
		}
		return rows[gr]
	}
	for _, gr := range e.record.resources() {
		row(gr)
	}
	missing := map[schema.GroupResource]int{}
	for why, n := range e.dry.leftOut {
		missing[why.resource] += n
		row(why.resource).LeftOut = append(row(why.resource).LeftOut, dryrun.LeftOut{Reason: why.reason, Items: n})
	}
	for res, reason := range e.unlisted() {
		gr := res.GroupResource()
		if rest := e.dry.total[gr] - e.record.count(gr) - missing[gr]; rest > 0 {
			row(gr).LeftOut = append(row(gr).LeftOut, dryrun.LeftOut{Reason: reason, Items: rest})
		}
	}
	found := &dryrun.Collection{Items: e.record.items(), NotCalled: e.req.DryRun.NotCalled()}
	for _, r := range rows {
		slices.SortFunc(r.LeftOut, func(a, b dryrun.LeftOut) int {
			return cmp.Or(cmp.Compare(b.Items, a.Items), strings.Compare(a.Reason, b.Reason))
		})
		found.Resources = append(found.Resources, *r)
	}
	slices.SortFunc(found.Resources, func(a, b dryrun.Resource) int { return strings.Compare(a.Resource, b.Resource) })
	return found
}

// unlisted yields each resource that the backup did not list completely, with the reason. The cluster may have more of
// its objects.
func (e *engine) unlisted() iter.Seq2[discovery.Resource, string] {
	return func(yield func(discovery.Resource, string) bool) {
		var all []discovery.Resource
		for _, res := range e.sel.snapshot.Resources() {
			if slices.ContainsFunc(all, func(other discovery.Resource) bool { return sameObjects(res, other) }) {
				continue
			}
			all = append(all, res)
			if reason := e.notListed(res); reason != "" && !yield(res, reason) {
				return
			}
		}
	}
}

// notListed returns the reason why objects of a resource were not listed, or "" if there is none: they are new.
func (e *engine) notListed(res discovery.Resource) string {
	spec := &e.req.Backup.Spec
	if !e.sel.resources.Includes(res) {
		if !res.Namespaced && spec.IncludeClusterResources == nil && !e.sel.namespaces.Everything() {
			return "it is cluster-scoped, and only some namespaces are included"
		}
		return "its resource is not included"
	}
	var reasons []string
	if res.Namespaced && !e.sel.namespaces.All() || res.GroupResource() == namespacesResource {
		reasons = append(reasons, "its namespace is not included")
	}
	if e.sel.selectors.Any() {
		reasons = append(reasons, "its labels do not match the selector")
	}
	return strings.Join(reasons, ", or ")
}
