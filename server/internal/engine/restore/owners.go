package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/orders"
)

// maxLate is the maximum number of objects that get owners after their creation. It bounds the memory of a restore.
const maxLate = 100_000

// owners restores the owners of objects. An object is created with those that exist by then. It gets the others when
// all objects are restored, unless their controllers adopt it.
type owners struct {
	found cache[objectKey, foundOwner]

	mu   sync.Mutex
	late []*lateOwned

	asking sync.Mutex // held while the API server is asked, so that it is asked once
	// blocks caches whether the server may make deletions of owners wait, by their resource and namespace.
	blocks map[objectKey]bool
}

// newOwners returns the owners of a restore, or nil if it restores none. What is enclosed gets none, because the
// deletion of an owner outside would wait for it.
func newOwners(r *velerov1.Restore, isEnclosed bool) *owners {
	if wanted, _ := velerov1.RestoresOwnerReferences(r); !wanted || isEnclosed { // its validation has reported the error
		return nil
	}
	return &owners{blocks: map[objectKey]bool{}}
}

// foundOwner is an owner in the cluster and in the backup.
type foundOwner struct {
	uid      types.UID // in the cluster; empty if it is not there
	archived types.UID // in the backup; empty if it is not there
	deleted  bool      // the cluster is deleting it
}

// lateOwned is an object that gets owners after its creation.
type lateOwned struct {
	of   owned
	to   target
	name string
	uid  types.UID
	refs []metav1.OwnerReference // as in the backup
}

// owned is an item for which owners are looked up.
type owned struct {
	id                string
	source, namespace string // in the backup and in the cluster
	resource          schema.GroupResource
}

// takeOwners records the owners of the object in the backup, and removes its finalizers if the restore leaves them out.
func (r *itemRun) takeOwners() error {
	if keep, _ := velerov1.RestoresFinalizers(r.engine.restore); !keep {
		r.obj.Metadata.Remove("finalizers")
	}
	r.archivedUID = types.UID(r.obj.UID)
	raw := r.obj.Metadata.Get("ownerReferences")
	if raw == nil || r.engine.owners == nil {
		return nil
	}
	if err := item.Unmarshal(raw, &r.owners); err != nil {
		return fmt.Errorf("its metadata.ownerReferences: %w", err)
	}
	return nil
}

// writeOwned writes the object with the owners that exist; see write. It gets the others when all objects are restored.
// An action or a modifier that sets owners decides which ones it has.
func (r *itemRun) writeOwned(ctx context.Context, to target, home *namespaceState, own object.Ownership) error {
	e := r.engine
	if e.owners == nil {
		return r.write(ctx, to, home, own)
	}
	var late []metav1.OwnerReference
	warn := func(err error) {
		if e.firstReport(err.Error()) { // the item may be asked for again
			r.warn(err)
		}
	}
	if len(r.owners) > 0 && (r.given != nil || r.obj.Metadata.Get("ownerReferences") == nil) {
		var err error
		if r.given, late, err = e.resolveOwners(ctx, r.owned(), r.owners, e.dry == nil, warn); err != nil {
			return err
		}
		if err := r.setOwners(); err != nil {
			return err
		}
	}
	if err := r.write(ctx, to, home, own); err != nil || r.postponed || r.uid == "" || e.dry != nil || r.tried {
		return err
	}
	if e.owns(r.entry) {
		e.owners.found.put(objectKey{to.gvr.GroupResource(), to.namespace, r.obj.Name},
			foundOwner{uid: r.uid, archived: r.archivedUID})
	}
	if r.existed && !r.ownable {
		return nil
	}
	one := &lateOwned{of: r.owned(), to: to, name: r.obj.Name, uid: r.uid, refs: late}
	if r.existed && len(r.given) > 0 {
		changed, err := e.addOwners(ctx, one, r.given, warn)
		if changed && r.claim.action == actionNone {
			r.claim.action = actionUpdated
		}
		if err != nil {
			return err
		}
	}
	if len(late) > 0 && !e.owners.addLate(one) {
		r.warn(fmt.Errorf("%s is restored without owners that were restored after it: more than %d objects have such owners",
			r.id, maxLate))
	}
	return nil
}

// setOwners sets the owners of the object, except in a dry run, in which some of them do not exist.
func (r *itemRun) setOwners() error {
	r.obj.Metadata.Remove("ownerReferences")
	if len(r.given) == 0 || r.engine.dry != nil {
		return nil
	}
	encoded, err := json.Marshal(r.given)
	if err != nil {
		return err
	}
	r.obj.Metadata.Set("ownerReferences", encoded)
	return nil
}

// owned returns what others need of the item to find its owners.
func (r *itemRun) owned() owned {
	return owned{id: r.id, source: r.entry.Namespace, namespace: r.namespace, resource: r.entry.GroupResource}
}

// addLate records an object that gets owners when all objects are restored. It returns false if there are too many.
func (o *owners) addLate(one *lateOwned) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.late) == maxLate {
		return false
	}
	o.late = append(o.late, one)
	return true
}

// owns reports whether an item may be the owner of others.
func (e *engine) owns(entry archive.Entry) bool { return e.schedule.order.Owns(entry) }

// isComing reports whether an object of the backup is restored later.
func (e *engine) isComing(entry archive.Entry) bool {
	at, planned := e.schedule.order.Position(entry)
	return planned && !e.schedule.isDone(at) || e.refusals.waits(entry)
}

// restoreOwners gives objects the owners that were restored after them. It must be called when all objects are
// restored.
func (e *engine) restoreOwners(ctx context.Context) error {
	if e.owners == nil {
		return nil
	}
	e.owners.mu.Lock()
	all := e.owners.late
	e.owners.late = nil
	e.owners.mu.Unlock()
	return each(ctx, e.pool, all, func(ctx context.Context, one *lateOwned) error {
		warn := func(err error) {
			e.log.Warn(err.Error())
			e.results.Warning(one.of.namespace, err.Error())
		}
		refs, _, err := e.resolveOwners(ctx, one.of, one.refs, false, warn)
		if err != nil || len(refs) == 0 {
			return err
		}
		_, err = e.addOwners(ctx, one, refs, warn)
		return err
	})
}

// resolveOwners returns references to the owners that exist, and those whose owners are restored later. It warns of
// the others. If later is false, nothing is restored any more.
func (e *engine) resolveOwners(
	ctx context.Context, of owned, refs []metav1.OwnerReference, later bool, warn func(error),
) (given, late []metav1.OwnerReference, err error) {
	for _, ref := range refs {
		now, waits, why, err := e.resolveOwner(ctx, of, ref, later)
		switch {
		case err != nil:
			return nil, nil, err
		case why != "":
			warn(fmt.Errorf("%s is restored without its owner %s %s: %s", of.id, ref.Kind, ref.Name, why))
		case waits:
			late = append(late, ref)
		case now != nil:
			given = append(given, *now)
		}
	}
	for i := range given {
		if !pointsTo(given[i].BlockOwnerDeletion) {
			continue
		}
		allowed, err := e.mayBlock(ctx, of, given[i])
		if err != nil {
			return nil, nil, err
		}
		if !allowed {
			given[i].BlockOwnerDeletion = nil
			warn(fmt.Errorf("%s is restored without blockOwnerDeletion of its owner %s %s: the server has no right to update "+
				"finalizers of the owner, with which it could set it", of.id, given[i].Kind, given[i].Name))
		}
	}
	return given, late, nil
}

// resolveOwner returns the reference to an owner as it is in the cluster. waits is set if the owner is restored later,
// and why is the reason why there must be no reference. All are zero if a controller makes the reference.
func (e *engine) resolveOwner(
	ctx context.Context, of owned, ref metav1.OwnerReference, later bool,
) (now *metav1.OwnerReference, waits bool, why string, err error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, false, fmt.Sprintf("its apiVersion %q is not group/version", ref.APIVersion), nil
	}
	if orders.IsGroup(gv.Group) {
		return nil, false, "servers and agents take what custom resources of theirs own for what they have made", nil
	}
	kind, ok := e.snapshot.Load().ByKind(gv.WithKind(ref.Kind).GroupKind())
	if !ok {
		return nil, false, fmt.Sprintf("the cluster does not serve %s", ref.APIVersion), nil
	}
	key, source := objectKey{resource: kind.GroupResource(), name: ref.Name}, ""
	if kind.Namespaced {
		if of.namespace == "" {
			return nil, false, "an owner in a namespace cannot own an object without one, which garbage collection would " +
				"delete", nil
		}
		key.namespace, source = of.namespace, of.source
	}
	entry, archived := e.archive.Find(key.resource, source, ref.Name)
	if archived && later && e.isComing(entry) {
		return nil, !isAdopted(of.resource, key.resource, pointsTo(ref.Controller)), "", nil
	}
	found, known := e.owners.found.get(key)
	if !known {
		if archived && e.dry != nil && e.selection.Allows(entry) {
			found.uid = "of a real restore"
		} else if found, err = e.findOwner(ctx, key, kind.GroupVersionResource()); err != nil {
			return nil, false, "", err
		}
		if archived {
			raw, err := e.archive.Read(entry)
			if err != nil {
				return nil, false, "", err
			}
			if meta, err := item.ParseMeta(raw); err == nil { // its own restore reports the error
				found.archived = types.UID(meta.UID)
			}
		}
		e.owners.found.put(key, found)
	}
	switch {
	case found.uid == "":
		return nil, false, "it is neither restored nor in the cluster, and garbage collection would delete the object", nil
	case found.deleted:
		return nil, false, "it is being deleted, and garbage collection would delete the object with it", nil
	case found.archived != "" && ref.UID != "" && found.archived != ref.UID:
		return nil, false, fmt.Sprintf("the object of that name in the backup is another one: it has the UID %s, and the "+
			"owner %s", found.archived, ref.UID), nil
	}
	if !kind.Serves(gv.Version) {
		ref.APIVersion = kind.GroupVersion.String()
	}
	ref.UID = found.uid
	return &ref, false, "", nil
}

// findOwner looks for an owner in the cluster.
func (e *engine) findOwner(ctx context.Context, key objectKey, gvr schema.GroupVersionResource) (foundOwner, error) {
	to := target{gvr: gvr, namespace: key.namespace}
	reply, err := e.api.Do(ctx, to.read(key.name, kubeapi.Metadata))
	if apierrors.IsNotFound(err) {
		return foundOwner{}, nil
	}
	if err != nil {
		if fatal(ctx, err) {
			return foundOwner{}, err
		}
		e.log.Warn("an owner cannot be read", "owner", key.name, "error", err)
		return foundOwner{}, nil
	}
	live, err := decodeWritten(reply.Body)
	return foundOwner{uid: live.Metadata.UID, deleted: live.Metadata.DeletionTimestamp != ""}, err
}

// isAdopted reports whether the controller of an owner makes the reference itself: controllers of workloads adopt what
// their selectors match, and a pod gets the claims of its ephemeral volumes; see adoptClaims.
func isAdopted(owned, owner schema.GroupResource, controller bool) bool {
	if !controller {
		return false
	}
	switch owner.String() + " " + owned.String() {
	case "replicasets.apps pods", "replicationcontrollers pods", "statefulsets.apps pods", "daemonsets.apps pods",
		"jobs.batch pods", "deployments.apps replicasets.apps", "statefulsets.apps controllerrevisions.apps",
		"daemonsets.apps controllerrevisions.apps", "deploymentconfigs.apps.openshift.io replicationcontrollers",
		"pods persistentvolumeclaims":
		return true
	}
	return false
}

// mayBlock reports whether the server may set blockOwnerDeletion, for which an admission plugin requires the right to
// update finalizers of the owner.
func (e *engine) mayBlock(ctx context.Context, of owned, ref metav1.OwnerReference) (bool, error) {
	kind, _ := e.snapshot.Load().ByKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind())
	everywhere := objectKey{resource: kind.GroupResource()}
	allowed, err := e.mayUpdateFinalizers(ctx, everywhere)
	if allowed || err != nil || !kind.Namespaced {
		return allowed, err
	}
	return e.mayUpdateFinalizers(ctx, objectKey{resource: everywhere.resource, namespace: of.namespace})
}

func (e *engine) mayUpdateFinalizers(ctx context.Context, key objectKey) (bool, error) {
	e.owners.asking.Lock()
	defer e.owners.asking.Unlock()
	if allowed, known := e.owners.blocks[key]; known {
		return allowed, nil
	}
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "update", Group: key.resource.Group, Resource: key.resource.Resource, Subresource: "finalizers",
			Namespace: key.namespace,
		}},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	reply, err := e.api.Do(ctx, kubeapi.Request{Method: http.MethodPost, Body: body, ContentType: kubeapi.JSON,
		Resource: authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")})
	if err == nil {
		err = json.Unmarshal(reply.Body, &review)
	}
	if err != nil {
		if fatal(ctx, err) {
			return false, err
		}
		e.log.Warn("not known whether blockOwnerDeletion may be set, so it is", "resource", key.resource.String(), "error",
			err)
		review.Status.Allowed = true // the API server will decide
	}
	e.owners.blocks[key] = review.Status.Allowed
	return review.Status.Allowed, nil
}

// addOwners adds owners to those of an object that exists. changed is false if it has them.
func (e *engine) addOwners(
	ctx context.Context, one *lateOwned, refs []metav1.OwnerReference, warn func(error),
) (changed bool, err error) {
	changed, err = e.tryAddOwners(ctx, one, refs)
	if err != nil && !fatal(ctx, err) {
		warn(fmt.Errorf("%s was restored without its owners: %w", one.of.id, err))
		return false, nil
	}
	return changed, err
}

func (e *engine) tryAddOwners(
	ctx context.Context, one *lateOwned, refs []metav1.OwnerReference,
) (changed bool, err error) {
	const attempts = 5 // controllers write to the object as well
	for attempt := 1; ; attempt++ {
		reply, err := e.api.Do(ctx, one.to.read(one.name, kubeapi.Metadata))
		if apierrors.IsNotFound(err) {
			return false, nil // it was deleted meanwhile
		}
		var live metav1.PartialObjectMetadata
		if err == nil {
			err = json.Unmarshal(reply.Body, &live)
		}
		if err != nil || live.UID != one.uid || live.DeletionTimestamp != nil {
			return false, err
		}
		all := live.OwnerReferences
		for _, ref := range refs {
			if slices.ContainsFunc(all, func(has metav1.OwnerReference) bool { return has.UID == ref.UID }) {
				continue
			}
			if other := metav1.GetControllerOf(&live); other != nil && pointsTo(ref.Controller) {
				return false, fmt.Errorf("%s %s controls it, and cannot be replaced by %s %s", other.Kind, other.Name, ref.Kind,
					ref.Name)
			}
			all = append(all, ref)
		}
		if len(all) == len(live.OwnerReferences) {
			return false, nil
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": live.ResourceVersion,
			"ownerReferences": all}})
		if err != nil {
			return false, err
		}
		request := one.to.write(http.MethodPatch, one.name, e.options.FieldManager, kubeapi.MergePatch, body)
		request.Conditional = true
		_, err = e.api.Do(ctx, request)
		if !apierrors.IsConflict(err) || attempt == attempts {
			return err == nil, err
		}
	}
}

func pointsTo(flag *bool) bool { return flag != nil && *flag }

// cache holds some ten thousand values, the newest of them. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	mu            sync.Mutex
	newer, former map[K]V
}

const cached = 50_000

func (c *cache[K, V]) get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if value, ok = c.newer[key]; ok {
		return value, true
	}
	value, ok = c.former[key]
	return value, ok
}

func (c *cache[K, V]) put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.newer) >= cached || c.newer == nil {
		c.former, c.newer = c.newer, map[K]V{}
	}
	c.newer[key] = value
}
