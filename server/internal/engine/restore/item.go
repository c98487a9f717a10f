package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// mirrorPodAnnotation marks the mirror pod that a kubelet creates for a static pod.
const mirrorPodAnnotation = "kubernetes.io/config.mirror"

// maxUndecodable is the maximum number of invalid objects in an archive. With more, the archive is unusable, and an
// error for each entry would not help.
const maxUndecodable = 1000

// reason is why an item is restored.
type reason int

const (
	selectedByFilters reason = iota // when the items were collected
	requested                       // by an action; the filters must allow the item
	required                        // by an action that insists on the item, regardless of the filters
)

// restoreEntry restores one item and the additional items that it needs first, unless it was already restored. exists
// reports whether the object is in the cluster. An error ends the whole restore; problems of the item are in the
// results.
func (e *engine) restoreEntry(
	ctx context.Context, w *worker, entry archive.Entry, why reason,
) (exists bool, err error) {
	r := &itemRun{engine: e, worker: w, entry: entry, namespace: e.selection.Target(entry.Namespace)}
	r.id = entry.GroupResource.String() + "/" + entry.Name
	if r.namespace != "" {
		r.id = entry.GroupResource.String() + "/" + r.namespace + "/" + entry.Name
	}
	r.log = e.log.With("resource", entry.GroupResource.String(), "namespace", r.namespace, "name", entry.Name)
	if why == requested && !e.selection.Allows(entry) || why == required && !e.selection.Restores(entry) {
		r.log.Info("additional item is not restored: the filters of the restore exclude it")
		return false, nil
	}
	if why == selectedByFilters {
		defer e.progressed(0)
	}
	ctx = waits.WithPart(ctx, &r.waits)
	if err := panics.Catch(r.log, r.decode); err != nil {
		if !e.firstReport(entry.Path()) {
			return false, nil
		}
		err = r.fail(fmt.Errorf("error decoding %q: %w", entry.Path(), err))
		r.report(actionFailed)
		if err == nil && e.state.undecodable.Add(1) > maxUndecodable {
			err = fmt.Errorf("more than %d entries of the archive are not objects, so it is not the archive of a backup; the "+
				"last one is %q", maxUndecodable, entry.Path())
		}
		return false, err
	}
	if entry.GroupResource == namespacesResource {
		return r.restoreNamespace(ctx)
	}
	if r.completed() {
		r.leave("it has completed")
		r.report(actionSkipped)
		return false, nil
	}
	r.key = itemKey{r.obj.ListKey(), r.namespace, entry.Name}
	claim, claimed := e.tracker.claim(w, r.key, entry)
	if !claimed {
		if claim.source != entry.Namespace {
			r.warn(fmt.Errorf("%s of namespace %s is not restored: namespaceMapping maps it to the same object as that of "+
				"namespace %s",
				r.id, entry.Namespace, claim.source))
		}
		if e.tracker.isFinished(claim) {
			return claim.exists, nil
		}
		err := e.pool.park(ctx, func() (err error) {
			exists, err = e.tracker.wait(ctx, w, claim)
			return err
		})
		return exists, err
	}
	r.claim, r.liveName = claim, r.key.name
	e.account.begin(r)
	if why != selectedByFilters && !e.selection.Includes(entry, r.obj.Kind, r.obj.Labels) {
		defer e.progressed(1)
	}
	err = panics.Catch(r.log, func() error { return r.restore(ctx) })
	if errors.Is(err, panics.Err) {
		err = r.fail(fmt.Errorf("error restoring %s: %w", r.id, err))
	}
	if err == nil && !r.postponed {
		r.conclude()
	}
	exists = claim.exists
	e.tracker.finish(claim)
	if err == nil && !r.postponed {
		e.tracker.settle(r.key, entry, claim)
	}
	return exists, err
}

// conclude records and reports the result of an item whose steps are done.
func (r *itemRun) conclude() {
	e, claim := r.engine, r.claim
	if claim.action == actionNone {
		claim.action = actionSkipped
		if r.warned || r.failed {
			claim.action = actionFailed
		}
	}
	claim.sum = r.sum()
	r.define()
	if claim.action == actionCreated || claim.action == actionUpdated {
		r.reportReferences()
	}
	r.report(claim.action)
	if claim.action == actionCreated || claim.action == actionUpdated {
		done, total := e.counts()
		runlog.Restored(e.log, runlog.Item{
			Resource: r.entry.GroupResource.String(), Namespace: r.namespace, Name: r.entry.Name, Done: done + 1,
			Total: max(total, done+1),
		})
	}
}

func (r *itemRun) restoreNamespace(ctx context.Context) (exists bool, err error) {
	r.namespace = r.engine.selection.Target(r.entry.Name)
	state, err := r.engine.ensureNamespace(ctx, r.entry.Name, r.namespace)
	switch {
	case err == nil && r.engine.enclose != nil:
		return true, nil // with the labels that it has
	case err == nil:
		return true, r.settleNamespace(ctx, state)
	case fatal(ctx, err):
		return false, err
	}
	r.engine.namespaceFailed(r.entry.Name, r.namespace, err)
	return false, nil
}

// decode reads the item and checks that it matches its path.
func (r *itemRun) decode() (err error) {
	if r.raw, err = r.engine.archive.Read(r.entry); err != nil {
		return err
	}
	if r.obj, err = object.Decode(r.raw); err != nil {
		return err
	}
	return r.engine.check(r.entry, r.obj)
}

// check returns an error unless an object matches its path in the archive.
func (e *engine) check(entry archive.Entry, o *object.Object) error {
	if err := entry.Check(o.Meta); err != nil {
		return err
	}
	return e.snapshot.Load().CheckKind(entry.GroupResource, o.GroupVersion().WithKind(o.Kind).GroupKind(),
		entry.Namespace != "")
}

// completed reports whether the item is a pod or job that has completed.
func (r *itemRun) completed() bool {
	gr := r.entry.GroupResource
	if gr != podsResource && gr != jobsResource {
		return false
	}
	var status struct {
		Phase          string `json:"phase"`
		CompletionTime string `json:"completionTime"`
	}
	if item.Unmarshal(r.obj.Top.Get("status"), &status) != nil {
		return false
	}
	if gr == jobsResource {
		return status.CompletionTime != ""
	}
	return status.Phase == "Succeeded" || status.Phase == "Failed"
}

// restore takes an item that this worker has claimed through its steps.
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
	if leftOut, err := r.enclose(false); leftOut || err != nil {
		return err
	}
	if excluded, err := r.excluded(ctx); excluded || err != nil {
		return err
	}
	r.status = r.obj.Top.Get("status")
	r.controlled = slices.ContainsFunc(r.obj.OwnerReferences, func(o item.OwnerReference) bool { return o.Controller })
	if err := r.takeOwners(); err != nil {
		return r.fail(fmt.Errorf("error restoring %s: %w", r.id, err))
	}
	r.obj.Reset()
	// An action may ask for that. The archive must not.
	r.obj.RemoveAnnotations(velerov1.MustIncludeAdditionalItemsRestoreAnnotation)
	if !r.tried {
		if skip, stop, err := r.runActions(ctx); err != nil || skip || stop {
			return err
		}
	}
	switch r.entry.GroupResource {
	case dataUploadsResource:
		// Restored unchanged, it would move data again. If an action handles it, the action skips it.
		return r.leaveOutUpload()
	case claimsResource:
		if err := r.prepareClaim(); err != nil {
			return r.fail(fmt.Errorf("error preparing %s: %w", r.id, err))
		}
	}
	r.reset = r.obj
	if err := r.modify(); err != nil {
		return err
	}
	to, err := r.target()
	if err != nil {
		return r.fail(fmt.Errorf("error restoring %s: %w", r.id, err))
	}
	if r.leavesOut(to) {
		return nil
	}
	r.dropOrders()
	if leftOut, err := r.enclose(true); leftOut || err != nil {
		return err
	}
	if r.tried {
		ctx = kubeapi.WithDryRun(ctx)
	}
	return r.writeOwned(ctx, to, home,
		object.PlanOwnership(r.obj.Metadata.Get("managedFields"), r.engine.options.FieldManager))
}

// excluded reports whether the item is excluded by its kind and content.
func (r *itemRun) excluded(ctx context.Context) (bool, error) {
	switch r.entry.GroupResource {
	case podsResource:
		if r.obj.Annotations[mirrorPodAnnotation] != "" {
			r.leave("it is the mirror of a static pod")
			return true, nil
		}
	case csiSnapshotsResource, csiContentsResource:
		if r.obj.Labels[velerov1.BackupUIDLabel] != "" && !r.engine.actions.Has(framework.RoleClaimRestores) {
			// The claim reports the data.
			r.leave("it is of a CSI snapshot, which the server restores with --features=EnableCSI only")
			return true, nil
		}
	case claimsResource:
		leftOut, err := r.prepareEphemeral()
		if err != nil {
			return true, r.fail(fmt.Errorf("error preparing %s: %w", r.id, err))
		}
		return leftOut, nil
	case volumesResource:
		skip, err := r.prepareVolume(ctx)
		if err != nil && ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		if err != nil {
			return true, r.fail(fmt.Errorf("error preparing %s: %w", r.id, err))
		}
		return skip, nil
	}
	return false, nil
}

// target sets namespace and labels of the object and returns its target.
func (r *itemRun) target() (target, error) {
	if r.namespace != "" {
		r.obj.SetNamespace(r.namespace)
	}
	r.obj.SetLabel(velerov1.BackupNameLabel, r.engine.backupLabel)
	r.obj.SetLabel(velerov1.RestoreNameLabel, r.engine.restoreLabel)

	gv := r.obj.GroupVersion()
	to := target{gvr: gv.WithResource(r.entry.GroupResource.Resource), namespace: r.namespace}
	if !r.changesType() {
		return to, nil
	}
	known, ok := r.engine.snapshot.Load().ByKind(gv.WithKind(r.obj.Kind).GroupKind())
	if !ok {
		return target{}, fmt.Errorf("an action or a resource modifier changed it to a %s, which the cluster does not serve",
			r.obj.ListKey())
	}
	if known.Namespaced != (r.namespace != "") {
		return target{}, fmt.Errorf("an action or a resource modifier changed it to a %s, which exists in another scope",
			r.obj.ListKey())
	}
	to.gvr.Resource = known.Name
	return to, nil
}

// dropOrders removes from the object what servers and agents act upon, except what the restore itself has decided.
// Nothing may add to the object after it.
func (r *itemRun) dropOrders() {
	r.obj.RemoveOrders(string(r.engine.restore.UID))
	if r.ephemeralOwner != "" {
		r.obj.SetAnnotation(ephemeralAnnotation, r.ephemeralOwner)
	}
}

// changesType reports whether actions or modifiers have changed the type of the object.
func (r *itemRun) changesType() bool {
	return r.key.kind() != r.obj.Kind || r.entry.GroupResource.Group != r.obj.GroupVersion().Group
}

// leavesOut reports whether the object in its current form is not written. Its path in the archive does not matter
// here.
func (r *itemRun) leavesOut(to target) bool {
	switch gr := to.gvr.GroupResource(); {
	case r.engine.selection.IsServerState(gr, to.namespace, r.obj.Meta):
		r.leave("a server would act on it or lives on it")
		r.engine.leaveOut(gr)
	case gr == r.entry.GroupResource:
		return false
	case plan.IsNonRestorable(gr), r.engine.selection.ExcludesResource(gr):
		r.warn(fmt.Errorf("%s is not restored: an action or a resource modifier made it one of %s, which the restore "+
			"excludes", r.id, gr))
	default:
		return false
	}
	return true
}

// write creates the object, or handles the existing one.
func (r *itemRun) write(ctx context.Context, to target, home *namespaceState, own object.Ownership) error {
	if isInEachNamespace(to, r.obj.Name) {
		if live, err := r.read(ctx, to); err == nil && live != nil {
			return r.handleExisting(ctx, to, live, own)
		}
	}
	const attempts = 3 // for an object that other clients create and delete
	for attempt := 1; ; attempt++ {
		made, err := r.create(ctx, to, home, own)
		switch {
		case r.tried && (err == nil || isUntriable(err)):
			r.concludeTrial(err)
			return nil
		case err == nil:
			r.claim.action, r.claim.exists = actionCreated, true
			r.named(made.Metadata.Name)
			r.uid = made.Metadata.UID
			r.log.Debug("created")
			r.isUnready(to)
			r.dropRecord(ctx)
			if err := r.reportLostData(); err != nil {
				return err
			}
			r.reportMixedData()
			return r.complete(ctx, to, made, own)
		case errors.Is(err, errUnchecked), r.isCreatedLater(err):
			r.claim.action, r.claim.exists = actionCreated, true
			r.finding.uncheck(err)
			r.reportMixedData()
			return r.reportLostData()
		case fatal(ctx, err):
			return err
		case kubeapi.PathNotFound(err):
			definition := archive.Entry{GroupResource: crdsResource, Name: r.entry.GroupResource.String()}
			if r.engine.refusals.waits(definition) && r.postpone(to, home, own, err) {
				return nil
			}
			if r.engine.isUndefinedMeanwhile(to.gvr.GroupResource()) {
				return r.fail(fmt.Errorf("error restoring %s: the definition %s was deleted during the restore; restore again",
					r.id, to.gvr.GroupResource()))
			}
			return r.fail(fmt.Errorf("error restoring %s: the cluster does not serve %s in %s; install their definition or "+
				"exclude them with excludedResources: %w",
				r.id, to.gvr.Resource, to.gvr.GroupVersion(), err))
		}
		live, readErr := r.read(ctx, to)
		switch {
		case readErr != nil && fatal(ctx, readErr):
			return readErr
		case live != nil:
			return r.handleExisting(ctx, to, live, own)
		case !errors.Is(err, errExists):
			// Quotas, policies, webhooks and validation refuse existing objects in the same way as new ones.
			if r.postpone(to, home, own, err) {
				return nil
			}
			return r.refused(err)
		case readErr != nil:
			r.claim.exists = true
			r.reportKeptData(false)
			r.warn(fmt.Errorf("%s exists in the cluster but cannot be read, so it was left as it is: %w", r.id, readErr))
			return nil
		case attempt == attempts:
			return r.fail(fmt.Errorf("error restoring %s: the cluster reports that it exists, and then that it does not", r.id))
		}
		own.Apply = false // its conflicts have more than one meaning
	}
}

// isInEachNamespace reports whether controllers of Kubernetes make an object of that name in each namespace, so that it
// mostly exists.
func isInEachNamespace(to target, name string) bool {
	switch to.gvr.GroupResource() {
	case serviceAccountsResource:
		return name == "default"
	case configMapsResource:
		return name == "kube-root-ca.crt"
	}
	return false
}

// read returns the object of that name in the cluster, or nil if there is none.
func (r *itemRun) read(ctx context.Context, to target) ([]byte, error) {
	if r.obj.Name == "" {
		return nil, nil
	}
	reply, err := r.engine.api.Do(ctx, to.read(r.obj.Name, kubeapi.JSON))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return reply.Body, nil
}

// create creates the object, and creates its namespace again if that was deleted after the restore began.
func (r *itemRun) create(ctx context.Context, to target, home *namespaceState, own object.Ownership) (written, error) {
	made, err := r.createIn(ctx, to, home, own)
	for err != nil && home != nil && isNamespaceMissing(err, r.namespace) && r.engine.forgetNamespace(r.namespace, home) {
		if home, err = r.engine.ensureNamespace(ctx, r.entry.Namespace, r.namespace); err == nil {
			made, err = r.createIn(ctx, to, home, own)
		}
	}
	return made, err
}

// complete restores the parts that a creation does not: status and field ownership.
func (r *itemRun) complete(ctx context.Context, to target, made written, own object.Ownership) error {
	if r.engine.dry != nil || r.tried {
		return nil
	}
	if r.restoresStatus() && !r.engine.requiresStatus(to.gvr.GroupResource()) {
		if err := r.engine.writeStatus(ctx, to, r.obj, made, r.status, own); err != nil {
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
	if to.gvr.GroupResource() == podsResource {
		r.runHooks(made)
		return r.adoptClaims(ctx, made.Metadata.Name, made.Metadata.UID)
	}
	return nil
}

// runHooks starts the hooks of a pod that this restore has created.
func (r *itemRun) runHooks(made written) {
	if r.engine.hooks != nil {
		r.engine.hooks.Add(hook.Pod{
			Namespace: r.namespace, Name: made.Metadata.Name, UID: made.Metadata.UID, Labels: made.Metadata.Labels,
			Annotations: made.Metadata.Annotations,
		})
	}
}
