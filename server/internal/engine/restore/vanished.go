package restore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// uidSum is the sum of the UID of a written object; 0 for an object that is not looked for at the end.
type uidSum uint32

func sumOf(uid types.UID) uidSum {
	if uid == "" {
		return 0
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(uid))
	return max(1, uidSum(sum.Sum32()))
}

// sum returns the sum of the UID of the object that the item has written. Objects that had a controller in the backup
// are left to it, because controllers replace what they made: the pods of a DaemonSet, for example.
func (r *itemRun) sum() uidSum {
	if r.controlled || r.tried || r.engine.dry != nil || r.changesType() ||
		r.claim.action != actionCreated && r.claim.action != actionUpdated {
		return 0
	}
	return sumOf(r.uid)
}

// writtenGroup has the written objects of a resource in a namespace.
type writtenGroup struct {
	gvr       schema.GroupVersionResource
	namespace string
	source    string            // the namespace in the backup of begin..end
	begin     int               // of the settled items
	end       int               // behind the last one
	others    map[string]uidSum // of those that are not settled
}

// written returns the groups of the objects that the restore has written.
func (t *tracker) written() []*writtenGroup {
	t.mu.Lock()
	defer t.mu.Unlock()
	type key struct {
		gvr       schema.GroupVersionResource
		namespace string
	}
	groups := map[key]*writtenGroup{}
	of := func(listKey string, gr schema.GroupResource, namespace string) *writtenGroup {
		at := key{gr.WithVersion(versionOf(listKey)), namespace}
		if groups[at] == nil {
			groups[at] = &writtenGroup{gvr: at.gvr, namespace: namespace, others: map[string]uidSum{}}
		}
		return groups[at]
	}
	for gr, listKey := range t.kinds {
		begin, end := t.order.Span(gr)
		var current *writtenGroup
		for i := begin; i < end; i++ {
			if t.sums[i] == 0 {
				continue
			}
			if source := t.order.Item(i).Namespace; current == nil || current.source != source {
				current = of(listKey, gr, t.target(source))
				current.source, current.begin = source, i
			}
			current.end = i + 1
		}
	}
	for key, c := range t.claims {
		if c.sum != 0 {
			of(key.listKey, c.resource, key.namespace).others[t.liveName(key)] = c.sum
		}
	}
	return slices.Collect(maps.Values(groups))
}

// versionOf returns the version in a list key such as "apps/v1/Deployment".
func versionOf(listKey string) string {
	parts := strings.Split(listKey, "/")
	return parts[len(parts)-2]
}

func (t *tracker) liveName(key itemKey) string {
	if name, renamed := t.names[key]; renamed {
		return name
	}
	return key.name
}

// objects returns the names of a group's objects with the sums of their UIDs.
func (t *tracker) objects(g *writtenGroup) map[string]uidSum {
	t.mu.Lock()
	defer t.mu.Unlock()
	objects := maps.Clone(g.others)
	listKey := t.kinds[g.gvr.GroupResource()]
	for i := g.begin; i < g.end; i++ {
		if t.sums[i] != 0 {
			objects[t.liveName(itemKey{listKey, g.namespace, t.order.Item(i).Name})] = t.sums[i]
		}
	}
	return objects
}

// reportVanished reports the objects that the restore has written and that others have removed since. It compares the
// UIDs of the written objects with those of lists of metadata, one for each resource and namespace. If it cannot find
// out, that is a warning.
func (e *engine) reportVanished(ctx context.Context) error {
	groups := e.tracker.written()
	if len(groups) == 0 {
		return nil
	}
	since := time.Now()
	lost, err := e.lostNamespaces(ctx, groups)
	if err == nil {
		var mu sync.Mutex
		gone := map[string]*tally{} // of namespaces that do not exist, or will not
		err = each(ctx, e.pool, groups, func(ctx context.Context, g *writtenGroup) error {
			if lost[g.namespace].gone {
				mu.Lock()
				defer mu.Unlock()
				if gone[g.namespace] == nil {
					gone[g.namespace] = &tally{}
				}
				for name := range e.tracker.objects(g) {
					gone[g.namespace].add(g.gvr.Resource + "/" + name)
				}
				return nil
			}
			return e.reportVanishedOf(ctx, g, lost[g.namespace].text)
		})
		for namespace, of := range gone {
			e.vanished(namespace, true, fmt.Sprintf("%s: of what was restored into it, %s", lost[namespace].text, of))
		}
	}
	e.log.Info("compared what was restored with what is there", "lists", len(groups), "seconds",
		time.Since(since).Seconds())
	if err != nil && ctx.Err() == nil {
		e.warn(fmt.Sprintf("it is not known whether all restored objects are still there: %v", err))
		return nil
	}
	return err
}

// vanished records what has vanished: an error if something is gone that the objects need.
func (e *engine) vanished(namespace string, need bool, message string) {
	if need {
		e.log.Error(message)
		e.results.Error(namespace, message)
		return
	}
	e.log.Warn(message)
	e.results.Warning(namespace, message)
}

// fate is what has become of a namespace that others have deleted; the zero value is that of all others.
type fate struct {
	gone bool // it does not exist, or is being deleted
	text string
}

// lostNamespaces returns the namespaces of groups that others have deleted during the restore.
func (e *engine) lostNamespaces(ctx context.Context, groups []*writtenGroup) (map[string]fate, error) {
	if !slices.ContainsFunc(groups, func(g *writtenGroup) bool { return g.namespace != "" }) {
		return nil, nil
	}
	live := map[string]written{}
	if err := e.eachNamespace(ctx, func(found written, _ []byte) { live[found.Metadata.Name] = found }); err != nil {
		return nil, err
	}
	e.namespaces.mu.Lock()
	defer e.namespaces.mu.Unlock()
	lost := map[string]fate{}
	for _, g := range groups {
		if g.namespace == "" {
			continue
		}
		now, exists := live[g.namespace]
		name := "namespace " + g.namespace
		switch {
		case !exists:
			lost[g.namespace] = fate{true, name + " was deleted during the restore"}
		case now.Metadata.DeletionTimestamp != "":
			lost[g.namespace] = fate{true, name + " is being deleted, since " + now.Metadata.DeletionTimestamp}
		case e.namespaces.first[g.namespace] != now.Metadata.UID:
			lost[g.namespace] = fate{false, name + " was deleted during the restore and created again"}
		}
	}
	return lost, nil
}

// reportVanishedOf reports the objects of a group that are not there. why is what they have lost before, such as their
// namespace; empty for nothing.
func (e *engine) reportVanishedOf(ctx context.Context, g *writtenGroup, why string) error {
	gr := g.gvr.GroupResource()
	missing := e.tracker.objects(g)
	written, found := len(missing), map[string]string{}
	// Objects of this restore have its label, so that the first list has few others. Somebody may have removed the label.
	for _, selector := range []string{velerov1.RestoreNameLabel + "=" + e.restoreLabel, ""} {
		err := e.eachMetadata(ctx, g, selector, func(o *metav1.PartialObjectMetadata) {
			sum, wanted := missing[o.Name]
			switch {
			case !wanted:
			case sumOf(o.UID) != sum:
				found[o.Name] = "replaced by another object"
			case o.DeletionTimestamp != nil:
				found[o.Name] = "being deleted"
			default:
				delete(missing, o.Name)
			}
		})
		if kubeapi.PathNotFound(err) && e.isUndefined(ctx, gr) {
			why = fmt.Sprintf("the cluster does not serve %s any more", gr)
			if e.isDefined(gr) || e.isUndefinedMeanwhile(gr) {
				why = fmt.Sprintf("the definition %s was deleted during the restore", gr)
			}
			break
		}
		if err != nil && fatal(ctx, err) {
			return err
		}
		if err != nil { // not every resource can be listed
			e.log.Info("cannot find out whether the restored objects are still there", "resource", gr.String(), "namespace",
				g.namespace, "error", err)
			return nil
		}
		if len(missing) == 0 {
			return nil
		}
	}
	lacking := &tally{}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		lacking.add(name + " (" + cmp.Or(found[name], "deleted") + ")")
	}
	what := fmt.Sprintf("of %d %s that were restored, %s", written, gr, lacking)
	if why != "" {
		what = why + ": " + what
	}
	e.vanished(g.namespace, why != "" || gr == crdsResource || gr == apiServicesResource, what)
	return nil
}

// isUndefined reports whether the definition of a resource does not exist, or is being deleted.
func (e *engine) isUndefined(ctx context.Context, gr schema.GroupResource) bool {
	reply, err := e.api.Do(ctx, target{gvr: crdsResource.WithVersion("v1")}.read(gr.String(), kubeapi.Metadata))
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	definition, err := decodeWritten(reply.Body)
	return err == nil && definition.Metadata.DeletionTimestamp != ""
}

// eachMetadata calls do for each object of a group's resource and namespace.
func (e *engine) eachMetadata(
	ctx context.Context, g *writtenGroup, selector string, do func(*metav1.PartialObjectMetadata),
) error {
	query := url.Values{"limit": {"500"}}
	if selector != "" {
		query.Set("labelSelector", selector)
	}
	var buffer []byte
	for {
		reply, err := e.api.Do(ctx, kubeapi.Request{Resource: g.gvr, Namespace: g.namespace, Query: query,
			Accept: kubeapi.CompactMetadataList, Buffer: buffer})
		if err != nil {
			return err
		}
		list, err := decodeMetadataList(reply.Body)
		if err != nil {
			return fmt.Errorf("decode the list of %s: %w", g.gvr.GroupResource(), err)
		}
		for i := range list.Items {
			do(&list.Items[i])
		}
		if list.Continue == "" {
			return nil
		}
		query.Set("continue", list.Continue)
		buffer = reply.Body
	}
}

// decodeMetadataList decodes a list of metadata, as protobuf or JSON.
func decodeMetadataList(body []byte) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	raw, isProto := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !isProto {
		return list, json.Unmarshal(body, list)
	}
	var wrapped runtime.Unknown
	if err := wrapped.Unmarshal(raw); err != nil {
		return nil, err
	}
	return list, list.Unmarshal(wrapped.Raw)
}

// tally counts names, and holds the first few.
type tally struct {
	names []string
	n     int
}

const maxNamed = 10

func (t *tally) add(name string) {
	t.n++
	t.names = append(t.names, name)
	if len(t.names) > 100*maxNamed { // bounded, and sorted when printed
		slices.Sort(t.names)
		t.names = t.names[:maxNamed]
	}
}

// String returns "2 are not there any more: a, b".
func (t *tally) String() string {
	slices.Sort(t.names)
	text := fmt.Sprintf("%d are not there any more: %s", t.n, strings.Join(t.names[:min(maxNamed, len(t.names))], ", "))
	if more := t.n - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
