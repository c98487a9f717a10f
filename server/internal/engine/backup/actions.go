package backup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// Annotations by which an action communicates with the engine (Velero's protocol).
const (
	mustIncludeAnnotation = "backup.velero.io/must-include-additional-items"
	skipAnnotation        = "velero.io/skip-from-backup"
)

// act calls the actions that apply to the object, one after the other, until one excludes it.
func (r *itemRun) act(ctx context.Context) error {
	gr, labels := r.object.resource.GroupResource(), func() map[string]string { return r.meta.Labels }
	for a := range r.engine.actions.For(gr, r.meta.Namespace, labels) {
		if err := r.actBy(ctx, a); err != nil || r.skipped {
			return err
		}
	}
	return nil
}

// actBy calls one action for the object, unless the run does not need the call, and applies the reply.
func (r *itemRun) actBy(ctx context.Context, a backupitemaction.Action) (err error) {
	e, gr := r.engine, r.object.resource.GroupResource()
	id, sent := identify(r.object.resource, r.meta), r.raw
	var chosen []podVolume
	if gr == podsResource && !e.refreshing && e.deps.Roles.Has(a.Name(), framework.RolePodVolumes) {
		if chosen, sent, err = e.podVolumes(ctx, r.raw); err != nil || len(chosen) == 0 {
			return err
		}
	}
	if !e.mayCall(a, id) {
		e.backsUp(id, chosen) // a real backup would
		return nil
	}
	class := ""
	if gr == claimsResource {
		var wanted bool
		if wanted, class, err = e.wantsAction(ctx, a.Name(), r.raw); err != nil {
			return err
		}
		if !wanted {
			e.log.Info("an action that takes snapshots is not called: none is wanted of the volume", "action", a.Name(),
				"namespace", r.meta.Namespace, "name", r.meta.Name)
			return nil
		}
	}
	if class != "" {
		if sent, err = item.WithAnnotation(r.raw, velerov1.VolumeSnapshotClassKey, class); err != nil {
			return err
		}
	}
	e.log.Debug("executing action", "action", a.Name(), "resource", gr, "namespace", r.meta.Namespace, "name", r.meta.Name)
	reply, err := r.call(ctx, a, id, sent)
	if err != nil {
		return err
	}
	if len(chosen) > 0 { // the pod is unchanged
		e.backsUp(id, chosen)
		e.volumes.started(id, reply.OperationID)
		reply.Item = r.raw
	}
	if class != "" && reply.Item != nil {
		if reply.Item, err = r.withOwnClass(reply.Item); err != nil {
			return err
		}
	}
	return r.takeOver(ctx, a.Name(), reply)
}

// withOwnClass returns a claim with the class of snapshots that it has in the cluster, instead of that of a rule.
func (r *itemRun) withOwnClass(raw []byte) ([]byte, error) {
	if own, named := r.meta.Annotations[velerov1.VolumeSnapshotClassKey]; named {
		return item.WithAnnotation(raw, velerov1.VolumeSnapshotClassKey, own)
	}
	return item.WithoutAnnotation(raw, velerov1.VolumeSnapshotClassKey)
}

// call calls an action for the object in its current form, once the action may be called.
func (r *itemRun) call(
	ctx context.Context, a backupitemaction.Action, id framework.ResourceIdentifier, sent []byte,
) (*backupitemaction.Result, error) {
	e := r.engine
	var reply *backupitemaction.Result
	err := e.operations.Call(ctx, a, id, sent, func() (string, []framework.ResourceIdentifier, error) {
		done, err := e.turn(ctx, a.Name())
		if err != nil {
			return "", nil, err
		}
		defer done()
		if e.req.Snapshots != nil && !e.refreshing && e.deps.Roles.Has(a.Name(), framework.RoleClaimSnapshots) {
			if err := e.req.Snapshots.BeginCSI(ctx); err != nil {
				return "", nil, err
			}
		}
		if reply, err = a.Execute(ctx, sent, e.backupJSON); reply == nil {
			reply = &backupitemaction.Result{}
		}
		return reply.OperationID, reply.PostOperationItems, err
	})
	return reply, err
}

// takeOver replaces the object with the one that an action has returned, and backs up the additional items of the
// reply.
func (r *itemRun) takeOver(ctx context.Context, action string, reply *backupitemaction.Result) error {
	changed, err := itemaction.CheckItem(action, r.meta, reply.Item)
	if err != nil {
		return err
	}
	if _, r.skipped = changed.Annotations[skipAnnotation]; r.skipped {
		gr := r.object.resource.GroupResource()
		r.engine.leaveOut(gr, "action "+action+" excludes it")
		r.engine.log.Info("object is excluded by an action", "action", action, "resource", gr,
			"namespace", r.meta.Namespace, "name", r.meta.Name)
		return nil
	}
	r.raw = reply.Item
	must := changed.Annotations[mustIncludeAnnotation] == "true"
	for _, name := range []string{velerov1.SkippedNoCSIPVAnnotation, mustIncludeAnnotation} {
		if _, given := changed.Annotations[name]; !given {
			continue
		}
		if r.raw, err = item.WithoutAnnotation(r.raw, name); err != nil {
			return fmt.Errorf("item returned by %s: %w", action, err)
		}
		delete(changed.Annotations, name)
	}
	if err := r.addRequested(ctx, action, must, reply.AdditionalItems); err != nil {
		return err
	}
	r.meta.UID, r.meta.Labels = changed.UID, changed.Labels
	r.meta.Annotations, r.meta.OwnerReferences = changed.Annotations, changed.OwnerReferences
	return nil
}

// addRequested backs up the additional items that an action requests, unless they are already in the backup. must is
// set if the action insists on them.
func (r *itemRun) addRequested(
	ctx context.Context, action string, must bool, ids []framework.ResourceIdentifier,
) error {
	if len(ids) == 0 {
		return nil
	}
	e := r.engine
	o := object{
		must: must || e.refreshing, block: r.object.block,
		included: manifest.Inclusion{By: manifest.ByAction, Plugin: action, Of: refTo(r.object, r.meta)},
	}
	for _, id := range ids {
		edge, err := e.additional(ctx, o, id)
		if err != nil {
			return fmt.Errorf("additional item %s requested by %s: %w", id, action, err)
		}
		if !slices.Contains(r.requested, edge) {
			r.requested = append(r.requested, edge)
		}
	}
	return nil
}

// additional backs up an object that an action requested for another one, unless it is already in the backup. o has
// all fields except the resource and the name. additional returns the dependency on the object.
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
	if why := foreignVolume(o); why != "" {
		e.record.warned(o.resource.GroupResource(), id.Namespace, id.Name, why, nil)
		e.log.Warn("additional item is left out", "item", id, "reason", why)
		return nil
	}
	r := itemRun{engine: e, object: o}
	return r.run(ctx)
}

// foreignVolume returns why a persistent volume is not one that the claim that brings it into the backup may bring, ""
// if it is. Who creates a claim can name any volume in it.
func foreignVolume(o object) string {
	of := o.included.Of
	if of == nil || (schema.GroupResource{Group: of.Group, Resource: of.Resource}) != claimsResource ||
		o.resource.GroupResource() != volumesResource {
		return ""
	}
	var pv struct {
		Spec struct{ ClaimRef *corev1.ObjectReference }
	}
	if json.Unmarshal(o.raw, &pv) != nil || pv.Spec.ClaimRef == nil { // its own backup reports what is wrong with it
		return ""
	}
	ref := pv.Spec.ClaimRef
	if ref.Namespace != of.Namespace || ref.Name != of.Name || ref.UID != "" && string(ref.UID) != of.UID {
		return fmt.Sprintf("it is bound to claim %s/%s, and not to claim %s/%s, which names it", ref.Namespace, ref.Name,
			of.Namespace, of.Name)
	}
	return ""
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
