package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/kubeapi"
)

// mirrorPodAnnotation marks the copy that a kubelet makes of a static pod.
const mirrorPodAnnotation = "kubernetes.io/config.mirror"

// itemRun is the restore of one item.
type itemRun struct {
	engine    *engine
	worker    *worker
	log       hclog.Logger
	entry     archive.Entry
	namespace string // that is restored into
	id        string // for messages: "deployments.apps/ns/name", with the namespace restored into
	raw       []byte // as it is in the archive
	obj       *object
	claim     *claim

	warned, failed bool
}

// warn records a warning about the item, which goes on.
func (r *itemRun) warn(err error) { r.warnIn(r.namespace, err) }

func (r *itemRun) warnIn(namespace string, err error) {
	r.warned = true
	r.log.Warn(err.Error())
	r.engine.results.Warning(namespace, err.Error())
}

// fail records an error of the item. It returns nil unless the error ends the whole restore.
func (r *itemRun) fail(err error) error {
	if errors.Is(err, kubeapi.ErrUnreachable) {
		return err
	}
	r.failed = true
	r.log.Error(err.Error())
	r.engine.results.Error(r.namespace, err.Error())
	return nil
}

// errPanic is a bug that one item brought to light.
var errPanic = errors.New("internal error")

// guard turns a panic into an error, so that one object of an archive cannot end the server.
func (r *itemRun) guard(step func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("panic in the restore of an item", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return step()
}

// fatal says whether an error ends the whole restore: there is no server, or nobody waits any more.
func fatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, kubeapi.ErrUnreachable)
}

// fatalOnly is the error of ctx.
func fatalOnly(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// restoreEntry restores one item, with all that it needs before it. An item that was restored before is
// not restored again. exists says that the object is in the cluster; an error ends the whole restore,
// what goes wrong with the item is in the results. additional items were asked for by an action, and have
// to pass the filters that were applied to others when they were collected.
func (e *engine) restoreEntry(ctx context.Context, w *worker, entry archive.Entry, additional bool) (exists bool, err error) {
	r := &itemRun{engine: e, worker: w, entry: entry, namespace: e.selection.target(entry.Namespace)}
	r.id = entry.GroupResource.String() + "/" + entry.Name
	if r.namespace != "" {
		r.id = entry.GroupResource.String() + "/" + r.namespace + "/" + entry.Name
	}
	r.log = e.log.With("resource", entry.GroupResource.String(), "namespace", r.namespace, "name", entry.Name)
	if additional && !e.selection.allowed(entry) {
		r.log.Info("additional item is not restored: the filters of the restore leave it out")
		return false, nil
	}
	if !additional {
		defer e.progressed(0)
	}
	if entry.GroupResource == grNamespaces {
		return r.restoreNamespace(ctx)
	}
	if err := r.guard(r.decode); err != nil {
		if !e.firstReport(entry.Path()) {
			return false, nil
		}
		return false, r.fail(fmt.Errorf("error decoding %q: %w", entry.Path(), err))
	}
	if r.completed() {
		r.log.Info("not restored: it has completed")
		return false, nil
	}
	claim, mine := e.tracker.claim(w, itemKey{r.obj.listKey(), r.namespace, entry.Name}, entry.Namespace)
	if !mine {
		if claim.source != entry.Namespace {
			r.warn(fmt.Errorf("%s of namespace %s is not restored: namespaceMapping puts it where that of namespace %s goes",
				r.id, entry.Namespace, claim.source))
		}
		return e.tracker.wait(ctx, w, claim)
	}
	r.claim = claim
	if additional && !e.selection.collected(entry, r.obj.Labels) {
		defer e.progressed(1)
	}
	err = r.guard(func() error { return r.restore(ctx) })
	if errors.Is(err, errPanic) {
		err = r.fail(fmt.Errorf("error restoring %s: %w", r.id, err))
	}
	if err == nil && claim.action == "" {
		claim.action = actionSkipped
		if r.warned || r.failed {
			claim.action = actionFailed
		}
	}
	e.tracker.finish(claim)
	return claim.exists, err
}

func (r *itemRun) restoreNamespace(ctx context.Context) (exists bool, err error) {
	r.namespace = r.engine.selection.target(r.entry.Name)
	_, err = r.engine.ensureNamespace(ctx, r.entry.Name, r.namespace)
	if err != nil && !fatal(ctx, err) {
		r.engine.namespaceFailed(r.namespace, err)
		err = nil
	}
	return err == nil, err
}

// decode reads the item, and checks that it is what its path says.
func (r *itemRun) decode() (err error) {
	if r.raw, err = r.engine.archive.Read(r.entry); err != nil {
		return err
	}
	if r.obj, err = decodeObject(r.raw); err != nil {
		return err
	}
	if r.obj.Name != r.entry.Name || r.obj.Namespace != r.entry.Namespace {
		return fmt.Errorf("it says that it is %q in namespace %q, which is not where it stands in the archive", r.obj.Name, r.obj.Namespace)
	}
	return nil
}

// completed says whether the item is a pod or job that has run to its end.
func (r *itemRun) completed() bool {
	gr := r.entry.GroupResource
	if gr != grPods && gr != grJobs {
		return false
	}
	var status struct {
		Phase          string
		CompletionTime string
	}
	if json.Unmarshal(r.obj.top.get("status"), &status) != nil {
		return false
	}
	if gr == grJobs {
		return status.CompletionTime != ""
	}
	return status.Phase == "Succeeded" || status.Phase == "Failed"
}

// restore is the way of an item that this worker has claimed.
func (r *itemRun) restore(ctx context.Context) error {
	var home *namespaceState
	if r.namespace != "" {
		var err error
		if home, err = r.engine.ensureNamespace(ctx, r.entry.Namespace, r.namespace); err != nil {
			if fatal(ctx, err) {
				return err
			}
			return r.fail(fmt.Errorf("error restoring %s: %w", r.id, err))
		}
	}
	if leave, err := r.leaveOut(); leave || err != nil {
		return err
	}
	status := r.obj.top.get("status")
	r.obj.reset()
	skip, stop, err := r.runActions(ctx)
	if err != nil || skip || stop {
		return err
	}
	switch r.entry.GroupResource {
	case grDataUploads:
		// Restored as it is it would move data again. An action that deals with it leaves it out.
		r.warn(fmt.Errorf("the data of volumes is not restored yet: %s is left out", r.id))
		return nil
	case grPersistentVolumeClaims:
		if err := r.prepareClaim(); err != nil {
			return r.fail(fmt.Errorf("error preparing %s: %w", r.id, err))
		}
	}
	if err := r.modify(); err != nil {
		return err
	}
	to, err := r.place()
	if err != nil {
		return r.fail(fmt.Errorf("error restoring %s: %w", r.id, err))
	}
	return r.write(ctx, to, home, status)
}

// leaveOut says whether the item is not to be restored for what it is.
func (r *itemRun) leaveOut() (leave bool, err error) {
	switch r.entry.GroupResource {
	case grPods:
		if r.obj.Annotations[mirrorPodAnnotation] != "" {
			r.log.Info("not restored: it is the mirror of a static pod")
			return true, nil
		}
		r.warnAboutHooks()
	case grPersistentVolumes:
		skip, err := r.prepareVolume()
		if err != nil {
			return true, r.fail(fmt.Errorf("error preparing %s: %w", r.id, err))
		}
		return skip, nil
	}
	return false, nil
}

// place says where the object is written to, after actions or modifiers may have changed its type, and marks it with
// namespace and labels.
func (r *itemRun) place() (target, error) {
	if r.namespace != "" {
		r.obj.setNamespace(r.namespace)
	}
	r.obj.setLabel(velerov1.BackupNameLabel, r.engine.backupLabel)
	r.obj.setLabel(velerov1.RestoreNameLabel, r.engine.restoreLabel)

	gv := r.obj.groupVersion()
	to := target{gvr: gv.WithResource(r.entry.GroupResource.Resource), namespace: r.namespace}
	if r.obj.listKey() != r.claim.key.listKey && kindOf(r.claim.key.listKey) != r.obj.Kind {
		known, ok := r.engine.snapshot.Load().ByKind(schema.GroupKind{Group: gv.Group, Kind: r.obj.Kind})
		if !ok {
			return target{}, fmt.Errorf("an action or a resource modifier made a %s of it, which the cluster does not serve", r.obj.listKey())
		}
		to.gvr.Resource = known.Name
	}
	return to, nil
}

// write creates the object, or meets the one that exists.
func (r *itemRun) write(ctx context.Context, to target, home *namespaceState, status []byte) error {
	own := planOwnership(r.obj.meta.get("managedFields"), r.engine.options.FieldManager)
	const tries = 3 // of an object that comes and goes
	for try := 1; ; try++ {
		made, err := r.create(ctx, to, home, own)
		switch {
		case err == nil:
			r.claim.action, r.claim.exists, r.claim.name = actionCreated, true, made.Metadata.Name
			r.log.Info("created")
			return r.complete(ctx, to, made, own, status)
		case fatal(ctx, err):
			return err
		case errors.Is(err, errExists), allocated(err, r.obj.Kind) && r.isThere(ctx, to):
			gone, err := r.meetExisting(ctx, to, own)
			if !gone {
				return err
			}
			if try == tries {
				return r.fail(fmt.Errorf("error restoring %s: the cluster says that it exists, and then that it does not", r.id))
			}
			own.apply = false // whose refusals have more meanings
		case kubeapi.PathNotFound(err):
			return r.fail(fmt.Errorf("error restoring %s: the cluster does not serve %s in %s; install what defines them, or leave them out with excludedResources: %w",
				r.id, to.gvr.Resource, to.gvr.GroupVersion(), err))
		default:
			return r.fail(fmt.Errorf("error restoring %s: %w", r.id, err))
		}
	}
}

// create writes the object, and its namespace again if that has gone since the restore began.
func (r *itemRun) create(ctx context.Context, to target, home *namespaceState, own ownership) (written, error) {
	made, err := r.engine.create(ctx, to, r.obj, own)
	for err != nil && home != nil && namespaceGone(err, r.namespace) && r.engine.forgetNamespace(r.namespace, home) {
		if home, err = r.engine.ensureNamespace(ctx, r.entry.Namespace, r.namespace); err == nil {
			made, err = r.engine.create(ctx, to, r.obj, own)
		}
	}
	return made, err
}

// complete does what is left once the object was created.
func (r *itemRun) complete(ctx context.Context, to target, made written, own ownership, status []byte) error {
	if len(status) > 0 && string(status) != "null" && r.engine.selection.restoresStatus(r.entry.GroupResource, r.obj.Annotations) {
		if err := r.engine.writeStatus(ctx, to, r.obj, made, status, own); err != nil {
			if fatal(ctx, err) {
				return err
			}
			r.warn(fmt.Errorf("%s was restored without its status: %w", r.id, err))
		}
	}
	if err := r.engine.own(ctx, to, made, own); err != nil {
		if fatal(ctx, err) {
			return err
		}
		r.warn(fmt.Errorf("%s was restored: %w", r.id, err))
	}
	if to.gvr.GroupResource() == grCRDs {
		return r.waitForCRD(ctx, to)
	}
	return nil
}

// isThere looks whether an object of that name exists.
func (r *itemRun) isThere(ctx context.Context, to target) bool {
	_, err := r.engine.api.Do(ctx, to.read(r.obj.Name, kubeapi.Metadata))
	return err == nil
}

// kindOf is the kind in a listKey.
func kindOf(listKey string) string {
	for i := len(listKey) - 1; i >= 0; i-- {
		if listKey[i] == '/' {
			return listKey[i+1:]
		}
	}
	return listKey
}
