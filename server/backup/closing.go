package backup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/item"
)

// close backs up what depends on the objects that are in the backup by now.
func (e *engine) close(ctx context.Context) error {
	if err := e.backUpNamespaces(ctx); err != nil {
		return err
	}
	if err := e.backUpDefinitions(ctx); err != nil {
		return err
	}
	e.warnOfVolumes()
	return nil
}

// warnOfVolumes says that the objects of volumes are not their data, unless the spec does without.
func (e *engine) warnOfVolumes() {
	if wanted := e.req.Backup.Spec.SnapshotVolumes; wanted != nil {
		return // preflight has warned, or none is wanted
	}
	if n := e.record.count(volumesResource); n > 0 {
		e.warn(fmt.Sprintf("the data of %d persistent volumes is not backed up: snapshots of volumes are not supported yet; set spec.snapshotVolumes to false to do without them", n))
	}
}

// backUpNamespaces backs up the namespaces themselves. When all namespaces and only some labels are
// selected, those are meant that have the labels or hold something that has.
func (e *engine) backUpNamespaces(ctx context.Context) error {
	resource, ok := e.sel.snapshot.ByGroupResource(namespacesResource)
	if !ok || !e.sel.resources.Includes(resource) {
		return nil
	}
	var end error
	err := e.eachOf(ctx, list{resource: resource}, func(raw []byte) error {
		meta, err := item.ParseMeta(raw)
		if err == nil {
			if !e.sel.namespaces.Match(meta.Name) {
				return nil
			}
			if e.sel.namespaces.Everything() && !e.sel.matches(meta.Labels) && !e.record.collectedFrom(meta.Name) {
				return nil
			}
		}
		e.record.expect(1)
		_, end = e.object(ctx, object{resource: resource, raw: raw, listed: true})
		return end
	})
	if err != nil && end == nil && ctx.Err() == nil {
		e.listFailed(&list{resource: resource}, err)
		return nil
	}
	return err
}

// backUpDefinitions backs up the definitions of the custom resources in the backup, without which
// those could not be restored, unless definitions are excluded.
func (e *engine) backUpDefinitions(ctx context.Context) error {
	definitions, ok := e.sel.snapshot.ByGroupResource(crdsResource)
	if !ok || e.sel.resources.Excludes(definitions) {
		return nil
	}
	for _, gr := range e.record.resources() {
		// The group of a custom resource is a domain.
		if !strings.Contains(gr.Group, ".") {
			continue
		}
		if e.seen.has(e.seen.key(crdsResource.Group, crdsResource.Resource, "", gr.String())) {
			continue
		}
		raw, err := e.client.get(ctx, definitions, "", gr.String())
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsNotFound(err):
			continue // a built-in or aggregated resource
		case err != nil:
			e.record.failed(crdsResource, "", gr.String(), fmt.Sprintf("cannot read the definition of %s", gr), err)
			continue
		}
		e.record.expect(1)
		if _, err := e.object(ctx, object{resource: definitions, raw: raw, listed: true}); err != nil {
			return err
		}
	}
	return nil
}

// resources are the resources of which something is in the backup.
func (r *record) resources() []schema.GroupResource {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Keys(r.used), func(a, b schema.GroupResource) int {
		return strings.Compare(a.String(), b.String())
	})
}
