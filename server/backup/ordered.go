package backup

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/item"
)

// ordered backs up the objects of a resource that spec.orderedResources names, in its order and in one block,
// before the lists of the resource are read. The lists contain them again; the backup recognises them.
func (e *engine) ordered(ctx context.Context, resource discovery.Resource, workers *workers) error {
	b := block{done: func() {}}
	for _, entry := range e.orderOf(resource) {
		namespace, name := "", entry
		if resource.Namespaced {
			namespace, name, _ = strings.Cut(entry, "/")
		}
		if name == "" || strings.Contains(name, "/") {
			e.record.warned(resource.GroupResource(), "", entry, "spec.orderedResources: want namespace/name, or name for a cluster-scoped object", nil)
			continue
		}
		if resource.Namespaced && !e.sel.namespaces.Match(namespace) {
			continue
		}
		raw, err := e.get(ctx, resource, namespace, name)
		if apierrors.IsNotFound(err) {
			e.record.warned(resource.GroupResource(), namespace, name, "spec.orderedResources: object does not exist", nil)
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			// The lists contain the object nevertheless.
			e.record.warned(resource.GroupResource(), namespace, name, "spec.orderedResources: object cannot be read, it is not backed up in order", err)
			continue
		}
		if meta, err := item.ParseMeta(raw); err != nil || !e.sel.selects(resource, meta) {
			continue
		}
		e.record.expect(1)
		b.objects = append(b.objects, object{resource: resource, raw: raw, listed: true})
	}
	if len(b.objects) > 0 {
		workers.add(b)
	}
	return nil
}

// orderOf returns the entries of spec.orderedResources for a resource, which is named there by its plural
// with or without the group.
func (e *engine) orderOf(resource discovery.Resource) []string {
	var entries []string
	for _, key := range []string{resource.GroupResource().String(), resource.Name} {
		if len(entries) > 0 {
			break
		}
		for entry := range strings.SplitSeq(e.req.Backup.Spec.OrderedResources[key], ",") {
			if entry = strings.TrimSpace(entry); entry != "" {
				entries = append(entries, entry)
			}
		}
	}
	return entries
}
