package backup

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/item"
	"github.com/cleat-dev/cleat/server/itemaction"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// Annotations by which an action talks to the engine (Velero's protocol).
const (
	mustIncludeAnnotation = "backup.velero.io/must-include-additional-items"
	skipAnnotation        = "velero.io/skip-from-backup"
)

// act calls the actions that apply to an object, one after the other, and backs up the additional items that
// they return. It returns the object as the actions changed it, and false if one of them excludes it.
func (e *engine) act(ctx context.Context, o object, meta item.Meta, raw []byte) ([]byte, bool, error) {
	gr := o.resource.GroupResource()
	for a := range e.actions.For(gr, meta.Namespace, func() map[string]string { return meta.Labels }) {
		e.log.Debug("executing action", "action", a.Name(), "resource", gr, "namespace", meta.Namespace, "name", meta.Name)
		reply, err := a.Execute(ctx, raw, e.backupJSON)
		if err != nil {
			return nil, false, err
		}
		if reply == nil {
			reply = &backupitemaction.Result{}
		}
		changed, err := itemaction.CheckItem(a.Name(), meta, reply.Item)
		if err != nil {
			return nil, false, err
		}
		if _, skip := changed.Annotations[skipAnnotation]; skip {
			e.log.Info("object is excluded by an action", "action", a.Name(), "resource", gr, "namespace", meta.Namespace, "name", meta.Name)
			return nil, false, nil
		}
		raw = reply.Item
		value, given := changed.Annotations[mustIncludeAnnotation]
		if given {
			if raw, err = withoutAnnotation(raw, mustIncludeAnnotation); err != nil {
				return nil, false, fmt.Errorf("item returned by %s: %w", a.Name(), err)
			}
		}
		if reply.OperationID != "" {
			e.record.operation(itemaction.Operation{
				Action: a.Name(), ID: reply.OperationID, Item: identify(o.resource, meta),
				PostOperationItems: reply.PostOperationItems, Created: e.now(),
			})
		}
		for _, id := range reply.AdditionalItems {
			if err := e.additional(ctx, id, value == "true"); err != nil {
				return nil, false, fmt.Errorf("additional item %s requested by %s: %w", id, a.Name(), err)
			}
		}
		meta.Labels = changed.Labels
	}
	return raw, true, nil
}

// additional backs up an object that an action requested, unless it is in the backup already.
func (e *engine) additional(ctx context.Context, id framework.ResourceIdentifier, must bool) error {
	resource, err := e.resourceOf(id)
	if err != nil {
		return err
	}
	switch {
	case id.Name == "":
		return errors.New("its name is missing")
	case resource.Namespaced && id.Namespace == "":
		return errors.New("its namespace is missing")
	case !resource.Namespaced:
		id.Namespace = ""
	}
	if err := e.addOne(ctx, resource, id, must); err != nil || !e.deps.AllVersions {
		return err
	}
	for _, version := range resource.Others {
		if err := e.addOne(ctx, resource.In(version), id, must); err != nil {
			return err
		}
	}
	return nil
}

// addOne backs up an additional item in one version.
func (e *engine) addOne(ctx context.Context, resource discovery.Resource, id framework.ResourceIdentifier, must bool) error {
	if e.seen.has(e.seen.keyOf(resource, id.Namespace, id.Name)) {
		return nil
	}
	o := object{resource: resource, must: must}
	if reason := e.exclusion(o, item.Meta{Name: id.Name, Namespace: id.Namespace}); reason != "" {
		e.log.Debug("additional item is excluded", "item", id, "reason", reason)
		return nil
	}
	var err error
	o.raw, err = e.get(ctx, resource, id.Namespace, id.Name)
	if apierrors.IsNotFound(err) {
		e.record.warned(resource.GroupResource(), id.Namespace, id.Name, "additional item does not exist, it is left out", nil)
		e.log.Warn("additional item does not exist, it is left out", "item", id)
		return nil
	}
	if err != nil {
		return err
	}
	meta, err := item.ParseMeta(o.raw)
	if err != nil {
		return err
	}
	_, err = e.store(ctx, o, meta)
	return err
}

func (e *engine) resourceOf(id framework.ResourceIdentifier) (discovery.Resource, error) {
	gr := schema.GroupResource{Group: id.Group, Resource: id.Resource}
	if resource, ok := e.sel.snapshot.ByGroupResource(gr); ok {
		return resource, nil
	}
	if known, ok := e.sel.snapshot.Resolve(gr.String()); ok {
		resource, _ := e.sel.snapshot.ByGroupResource(known)
		return resource, nil
	}
	return discovery.Resource{}, fmt.Errorf("%s is not a resource of this cluster", gr)
}

func identify(resource discovery.Resource, meta item.Meta) framework.ResourceIdentifier {
	return framework.ResourceIdentifier{
		Group: resource.GroupVersion.Group, Resource: resource.Name, Namespace: meta.Namespace, Name: meta.Name,
	}
}
