package backup

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// maxRelatedBytes bounds the related objects in all blocks that wait or are in progress. If there is no space for an
// object, it is read again when it is backed up.
const maxRelatedBytes = 16 << 20

// relate adds to a block the related items of its objects, as item block actions name them, and then the related items
// of these. An object is in one block only: in the first block to which it is related, or in one of its own. Problems
// with relations are recorded; an error ends the whole backup.
func (e *engine) relate(ctx context.Context, b *block) error {
	for i := range b.objects {
		o := &b.objects[i]
		if meta, err := item.ParseMeta(o.raw); err == nil && e.exclusion(*o, meta) == "" {
			o.key = e.seen.keyOf(o.resource, meta.Namespace, meta.Name)
			o.assigned = e.seen.assign(o.key)
		} // otherwise the worker records why
	}
	for i := 0; i < len(b.objects); i++ { // relations are appended
		o := &b.objects[i]
		if !o.assigned {
			continue
		}
		if err := e.read(ctx, o); err != nil {
			return err
		}
		if o.missing {
			continue
		}
		meta, err := item.ParseMeta(o.raw)
		if err != nil || e.exclusion(*o, meta) != "" {
			continue
		}
		b.hooked = b.hooked || e.hooked(*o, meta)
		related, err := e.relations(ctx, *o, meta)
		if err != nil {
			return err
		}
		if !o.listed {
			e.keep(b, i)
		}
		of := refTo(*o, meta)
		for _, r := range related {
			if err := e.addRelated(b, r.to, manifest.Inclusion{By: manifest.ByBlock, Plugin: r.by, Of: of}); err != nil {
				e.ignoreRelation(*o, meta, fmt.Sprintf("related item %s cannot be backed up with it", r.to), err)
			}
		}
	}
	return nil
}

// relation is an item that an item block action names for an object.
type relation struct {
	to framework.ResourceIdentifier
	by string
}

// relations returns the items that the item block actions name for an object.
func (e *engine) relations(ctx context.Context, o object, meta item.Meta) ([]relation, error) {
	var all []relation
	raw := o.raw
	if meta.Kind == "" && meta.APIVersion == "" {
		raw = item.WithType(nil, o.raw, o.resource.GroupVersion.String(), o.resource.Kind)
	}
	for a := range e.blockActions.For(o.resource.GroupResource(), meta.Namespace,
		func() map[string]string { return meta.Labels }) {
		related, err := a.GetRelatedItems(ctx, raw, e.backupJSON)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			e.ignoreRelation(o, meta, "error executing an item block action, the items that it relates are not backed up in "+
				"one block", err)
			continue
		}
		for _, id := range related {
			all = append(all, relation{id, a.Name()})
		}
	}
	return all, nil
}

func (e *engine) ignoreRelation(o object, meta item.Meta, text string, err error) {
	e.record.warned(o.resource.GroupResource(), meta.Namespace, meta.Name, text, err)
	e.log.Warn(text, "resource", o.resource.GroupResource(), "namespace", meta.Namespace, "name", meta.Name, "error", err)
}

// addRelated adds a related item to a block, unless it is already in one or the filters exclude it. It is read when it
// is its turn.
func (e *engine) addRelated(b *block, id framework.ResourceIdentifier, included manifest.Inclusion) error {
	resource, id, err := e.wanted(id)
	if err != nil {
		return err
	}
	for _, version := range e.versionsOf(resource) {
		o := object{resource: version, namespace: id.Namespace, name: id.Name, assigned: true, included: included}
		if reason := e.exclusion(o, item.Meta{Name: id.Name, Namespace: id.Namespace}); reason != "" {
			e.log.Debug("related item is excluded", "item", id, "reason", reason)
			return nil
		}
		o.key = e.seen.keyOf(version, id.Namespace, id.Name)
		if e.seen.assign(o.key) {
			b.objects = append(b.objects, o)
		}
	}
	return nil
}

// read reads a related item, unless it was already read. If that fails, read records the failure and removes the item
// from the block.
func (e *engine) read(ctx context.Context, o *object) error {
	if o.raw != nil || o.missing {
		return nil
	}
	raw, err := e.get(ctx, o.resource, o.namespace, o.name)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsNotFound(err):
		const text = "related item does not exist, it is left out"
		e.record.warned(o.resource.GroupResource(), o.namespace, o.name, text, nil)
		e.log.Warn(text, "resource", o.resource.GroupResource(), "namespace", o.namespace, "name", o.name)
	case err != nil:
		const text = "related item cannot be read, it is not backed up"
		e.record.failed(o.resource.GroupResource(), o.namespace, o.name, text, err)
		e.log.Error(text, "resource", o.resource.GroupResource(), "namespace", o.namespace, "name", o.name, "error", err)
	default:
		o.raw = raw
		why := foreignVolume(*o)
		if why == "" {
			return nil
		}
		meta, err := item.ParseMeta(raw)
		if err == nil && e.sel.resources.Includes(o.resource) && e.sel.selects(o.resource, meta) {
			return nil // the filters select it, whoever names it
		}
		o.raw = nil
		e.log.Debug("related item is left out", "resource", o.resource.GroupResource(), "name", o.name, "reason", why)
	}
	o.missing = true
	return nil
}

// keep stores a related object for the worker if there is space.
func (e *engine) keep(b *block, i int) {
	size := int64(len(b.objects[i].raw))
	if e.relatedBytes.Add(size) > maxRelatedBytes {
		e.relatedBytes.Add(-size)
		b.objects[i].raw = nil
		return
	}
	b.related += size
}

// wanted returns the resource of an item that an action requests, and the identifier of the item in the backup.
func (e *engine) wanted(id framework.ResourceIdentifier) (discovery.Resource, framework.ResourceIdentifier, error) {
	resource, err := e.resourceOf(id)
	switch {
	case err != nil:
		return discovery.Resource{}, id, err
	case id.Name == "":
		return discovery.Resource{}, id, errors.New("its name is missing")
	case resource.Namespaced && id.Namespace == "":
		return discovery.Resource{}, id, errors.New("its namespace is missing")
	case !resource.Namespaced:
		id.Namespace = ""
	}
	return resource, id, nil
}

// versionsOf returns the versions in which the objects of a resource are backed up, the preferred one first.
func (e *engine) versionsOf(resource discovery.Resource) []discovery.Resource {
	versions := []discovery.Resource{resource}
	if e.deps.AllVersions {
		for _, version := range resource.Others {
			versions = append(versions, resource.In(version))
		}
	}
	return versions
}
