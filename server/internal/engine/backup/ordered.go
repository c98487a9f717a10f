package backup

import (
	"context"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// ordered backs up the objects of a resource that spec.orderedResources names, in its order and in one block, before
// the lists of the resource are read. The lists contain them again; the backup skips them there.
func (e *engine) ordered(ctx context.Context, resource discovery.Resource, lanes lanes) error {
	b := &block{done: func() {}}
	for _, entry := range e.orderOf(resource.GroupResource()) {
		namespace, name := "", entry
		if resource.Namespaced {
			namespace, name, _ = strings.Cut(entry, "/")
		}
		if name == "" || strings.Contains(name, "/") {
			e.record.warned(resource.GroupResource(), "", entry,
				"spec.orderedResources: want namespace/name, or name for a cluster-scoped object", nil)
			continue
		}
		const notSelected = "spec.orderedResources: the filters of the backup do not include the object"
		if resource.Namespaced && !e.sel.namespaces.Match(namespace) {
			e.record.warned(resource.GroupResource(), namespace, name, notSelected, nil)
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
			// The object is in the lists nevertheless.
			e.record.warned(resource.GroupResource(), namespace, name,
				"spec.orderedResources: object cannot be read, it is not backed up in order", err)
			continue
		}
		meta, err := item.ParseMeta(raw)
		if err != nil {
			continue // the lists report it
		}
		if !e.sel.selects(resource, meta) {
			e.record.warned(resource.GroupResource(), namespace, name, notSelected, nil)
			continue
		}
		e.record.expect(1)
		o := object{resource: resource, raw: raw, listed: true, included: manifest.Inclusion{By: manifest.ByOrder}}
		b.objects, b.hooked = append(b.objects, o), b.hooked || e.hooked(o, meta)
	}
	if len(b.objects) == 0 {
		return nil
	}
	if e.blockActions.Any() {
		if err := e.relate(ctx, b); err != nil {
			return err
		}
	}
	lanes.add(b)
	return nil
}

// orderOf returns the entries of spec.orderedResources for a resource, which may have any name of the resource as
// their key.
func (e *engine) orderOf(resource schema.GroupResource) []string {
	ordered := e.req.Backup.Spec.OrderedResources
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(ordered)) {
		if gr, ok := e.sel.snapshot.Resolve(key); !ok || gr != resource {
			continue
		}
		for entry := range strings.SplitSeq(ordered[key], ",") {
			if entry = strings.TrimSpace(entry); entry != "" {
				entries = append(entries, entry)
			}
		}
	}
	return entries
}
