package backup

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// Annotations by which an action talks to the engine (Velero's protocol).
const (
	mustIncludeAnnotation = "backup.velero.io/must-include-additional-items"
	skipAnnotation        = "velero.io/skip-from-backup"
)

// acted is an object as the actions have changed it.
type acted struct {
	meta      item.Meta
	raw       []byte
	requested []manifest.Edge // the additional items
	excluded  bool            // by an action
}

// act calls the actions that apply to an object, one after the other, and backs up the additional items that
// they return.
func (e *engine) act(ctx context.Context, o object, meta item.Meta, raw []byte) (done acted, err error) {
	gr := o.resource.GroupResource()
	for a := range e.actions.For(gr, meta.Namespace, func() map[string]string { return meta.Labels }) {
		id, sent := identify(o.resource, meta), raw
		var chosen []podVolume
		if e.deps.Roles.Has(a.Name(), framework.RolePodVolumes) && gr == podsResource && !e.refreshing {
			if chosen, sent, err = e.podVolumes(ctx, raw); err != nil {
				return acted{}, err
			}
			if len(chosen) == 0 {
				continue
			}
		}
		if !e.mayCall(a, id) {
			e.backsUp(id, chosen) // a real backup would
			continue
		}
		if gr == claimsResource {
			if wanted, err := e.wantsAction(ctx, a.Name(), raw); err != nil {
				return acted{}, err
			} else if !wanted {
				e.log.Info("an action that takes snapshots is not called: none is wanted of the volume", "action", a.Name(),
					"namespace", meta.Namespace, "name", meta.Name)
				continue
			}
		}
		e.log.Debug("executing action", "action", a.Name(), "resource", gr, "namespace", meta.Namespace, "name", meta.Name)
		reply := &backupitemaction.Result{}
		err := e.operations.Call(ctx, a, id, sent, func() (string, []framework.ResourceIdentifier, error) {
			done, err := e.turn(ctx, a.Name())
			if err != nil {
				return "", nil, err
			}
			defer done()
			if e.deps.Roles.Has(a.Name(), framework.RoleClaimSnapshots) && e.req.Snapshots != nil && !e.refreshing {
				if err := e.req.Snapshots.BeginCSI(ctx); err != nil {
					return "", nil, err
				}
			}
			answer, err := a.Execute(ctx, sent, e.backupJSON)
			if answer != nil {
				reply = answer
			}
			return reply.OperationID, reply.PostOperationItems, err
		})
		if err != nil {
			return acted{}, err
		}
		if len(chosen) > 0 { // the pod stays as it is
			e.backsUp(id, chosen)
			e.volumes.started(id, reply.OperationID)
			reply.Item = raw
		}
		changed, err := itemaction.CheckItem(a.Name(), meta, reply.Item)
		if err != nil {
			return acted{}, err
		}
		if _, skip := changed.Annotations[skipAnnotation]; skip {
			e.leaveOut(gr, "action "+a.Name()+" excludes it")
			e.log.Info("object is excluded by an action", "action", a.Name(), "resource", gr, "namespace", meta.Namespace,
				"name", meta.Name)
			return acted{excluded: true}, nil
		}
		raw = reply.Item
		if _, noCSI := changed.Annotations[velerov1.SkippedNoCSIPVAnnotation]; noCSI {
			if raw, err = item.WithoutAnnotation(raw, velerov1.SkippedNoCSIPVAnnotation); err != nil {
				return acted{}, fmt.Errorf("item returned by %s: %w", a.Name(), err)
			}
			delete(changed.Annotations, velerov1.SkippedNoCSIPVAnnotation)
		}
		value, given := changed.Annotations[mustIncludeAnnotation]
		if given {
			if raw, err = item.WithoutAnnotation(raw, mustIncludeAnnotation); err != nil {
				return acted{}, fmt.Errorf("item returned by %s: %w", a.Name(), err)
			}
			delete(changed.Annotations, mustIncludeAnnotation)
		}
		wanted := object{
			must: value == "true" || e.refreshing, block: o.block,
			included: manifest.Inclusion{By: manifest.ByAction, Plugin: a.Name(), Of: refTo(o, meta)},
		}
		for _, id := range reply.AdditionalItems {
			edge, err := e.additional(ctx, wanted, id)
			if err != nil {
				return acted{}, fmt.Errorf("additional item %s requested by %s: %w", id, a.Name(), err)
			}
			if !slices.Contains(done.requested, edge) {
				done.requested = append(done.requested, edge)
			}
		}
		meta.UID, meta.Labels, meta.Annotations, meta.OwnerReferences = changed.UID, changed.Labels, changed.Annotations,
			changed.OwnerReferences
	}
	done.meta, done.raw = meta, raw
	return done, nil
}

// additional backs up an object that an action requested for another one, unless it is in the backup already. o is what
// is known of it beside its name. additional returns the dependency on it.
func (e *engine) additional(ctx context.Context, o object, id framework.ResourceIdentifier) (manifest.Edge, error) {
	resource, id, err := e.wanted(id)
	if err != nil {
		return manifest.Edge{}, err
	}
	for _, version := range e.versionsOf(resource) {
		o.resource = version
		if err := e.addOne(ctx, o, id); err != nil {
			return manifest.Edge{}, err
		}
	}
	o.resource = resource
	return manifest.Edge{
		Type: manifest.Action, To: *refTo(o, item.Meta{Namespace: id.Namespace, Name: id.Name}), Plugin: o.included.Plugin,
	}, nil
}

// addOne backs up an additional item in one version.
func (e *engine) addOne(ctx context.Context, o object, id framework.ResourceIdentifier) error {
	key := e.seen.keyOf(o.resource, id.Namespace, id.Name)
	if e.seen.has(key) {
		return nil
	}
	if reason := e.exclusion(o, item.Meta{Name: id.Name, Namespace: id.Namespace}); reason != "" {
		e.log.Debug("additional item is excluded", "item", id, "reason", reason)
		return nil
	}
	var err error
	if o.raw = o.block.find(key); o.raw == nil {
		o.raw, err = e.get(ctx, o.resource, id.Namespace, id.Name)
	}
	if apierrors.IsNotFound(err) {
		e.record.warned(o.resource.GroupResource(), id.Namespace, id.Name, "additional item does not exist, it is left out",
			nil)
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
