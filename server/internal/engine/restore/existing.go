package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/drift"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// existing is an object that already exists in the cluster, with its differences from the backup.
type existing struct {
	live  map[string]any
	meta  written // of live
	drift *drift.Drift

	differences []drift.Difference // the relevant ones of drift
	status      any                // in the backup; nil if it is not restored or is the same
}

// handleExisting handles an object that already exists in the cluster. If it equals the object of the backup, it is
// not changed. Service accounts are merged. Others are left with a warning or patched, as existingResourcePolicy
// specifies.
func (r *itemRun) handleExisting(ctx context.Context, to target, raw []byte, own object.Ownership) error {
	r.claim.exists = true
	const attempts = 5 // for an object that other clients change at the same time
	for attempt := 1; ; attempt++ {
		x, err := decodeExisting(raw)
		if err != nil {
			return r.fail(fmt.Errorf("decode %s as it is in the cluster: %w", r.id, err))
		}
		r.uid, r.existed = x.meta.Metadata.UID, true
		if !r.updates() && r.isFromFormerAttempt(x.meta) {
			return r.resume(ctx, to, x.meta, own)
		}
		if attempt == 1 {
			r.reportKeptData(r.isFromFormerAttempt(x.meta))
		}
		if attempt == 1 && to.gvr.GroupResource() == podsResource {
			if err := r.resumePod(ctx, x.meta); err != nil {
				return err
			}
		}
		if x.meta.Metadata.DeletionTimestamp != "" {
			r.finding.verdict = outcome.Conflict
			r.warn(fmt.Errorf("%s exists in the cluster and is being deleted, so it was left as it is; restore it again when "+
				"it is gone", r.id))
			return nil
		}
		if err := r.compare(ctx, to, x); err != nil {
			if fatal(ctx, err) {
				return err
			}
			return r.fail(err)
		}
		err = r.settle(ctx, to, x, own)
		switch {
		case err == nil || fatal(ctx, err):
			return err
		case !apierrors.IsConflict(err) || attempt == attempts:
			r.refuse(ctx, to, err, own)
			return causeOf(ctx)
		}
		raw, err = r.read(ctx, to)
		switch {
		case err != nil && fatal(ctx, err):
			return err
		case err != nil:
			return r.fail(fmt.Errorf("error restoring %s: it was changed while it was compared, and cannot be read again: %w",
				r.id, err))
		case raw == nil:
			return r.fail(fmt.Errorf("error restoring %s: it was deleted while it was compared; restore it again", r.id))
		}
	}
}

// resumePod completes the restore of a pod that already exists. It continues the hooks that a former attempt has
// begun, and makes the pod the owner of its claims.
func (r *itemRun) resumePod(ctx context.Context, pod written) error {
	if r.engine.resumed && hook.IsMarked(pod.Metadata.Annotations, r.engine.restore.UID) {
		r.runHooks(pod)
	}
	return r.adoptClaims(ctx, pod.Metadata.Name, pod.Metadata.UID)
}

func decodeExisting(raw []byte) (*existing, error) {
	x := &existing{}
	if err := utiljson.Unmarshal(raw, &x.live); err != nil {
		return nil, err
	}
	if _, ok := x.live["metadata"].(map[string]any); !ok {
		return nil, fmt.Errorf("metadata is a %T, expected an object", x.live["metadata"])
	}
	meta, err := decodeWritten(raw)
	x.meta = meta
	return x, err
}

// updates reports whether existing objects are updated.
func (r *itemRun) updates() bool {
	return r.engine.restore.Spec.ExistingResourcePolicy == velerov1.PolicyTypeUpdate
}

// mayHaveMore reports whether an existing object keeps fields that the backup does not have: other clients set labels
// of namespaces, and controllers add secrets to service accounts.
func (r *itemRun) mayHaveMore() bool {
	return r.entry.GroupResource == namespacesResource || r.entry.GroupResource == serviceAccountsResource
}

// compare finds the relevant differences.
func (r *itemRun) compare(ctx context.Context, to target, x *existing) error {
	states := drift.States{Resource: to.gvr.GroupResource(), Live: x.live}
	for _, state := range []struct {
		into *map[string]any
		raw  []byte
	}{{&states.Archived, r.raw}, {&states.Reset, r.reset.Encode()}, {&states.Wanted, r.obj.Encode()}} {
		if err := utiljson.Unmarshal(state.raw, state.into); err != nil {
			return fmt.Errorf("decode %s as it is in the backup: %w", r.id, err)
		}
	}
	x.drift = drift.Compare(states)
	x.differences = x.drift.Differences
	if r.mayHaveMore() {
		x.differences = slices.DeleteFunc(x.differences, isExtra)
	}
	if slices.ContainsFunc(x.differences, mayBeDefault) {
		if err := r.dropDefaults(ctx, to, x, states); err != nil {
			return err
		}
	}
	if r.restoresStatus() {
		var status any
		if err := utiljson.Unmarshal(r.status, &status); err != nil {
			return fmt.Errorf("decode the status of %s as it is in the backup: %w", r.id, err)
		}
		if !equality.Semantic.DeepEqual(status, x.live["status"]) {
			x.status = status
		}
	}
	return nil
}

func isExtra(d drift.Difference) bool { return d.Kind == drift.Extra }

// mayBeDefault reports whether the API server may have set the field to a default. Metadata has no defaults.
func mayBeDefault(d drift.Difference) bool {
	return isExtra(d) && !strings.HasPrefix(d.Path, "metadata.")
}

// dropDefaults removes the differences that are defaults of the API server. The backup does not have them if it was
// read from another version of the server. A default comes back in a dry run of its removal.
func (r *itemRun) dropDefaults(ctx context.Context, to target, x *existing, states drift.States) error {
	body, err := mergePatch(x.drift.Live(), x.drift.Apply(isExtra))
	if err != nil {
		return err
	}
	request := to.write(http.MethodPatch, r.obj.Name, r.engine.options.FieldManager, kubeapi.MergePatch, body)
	request.Query.Set("dryRun", "All")
	request.Accept = kubeapi.JSON
	reply, err := r.engine.api.Do(ctx, request)
	if err != nil {
		if fatal(ctx, err) {
			return err
		}
		return nil // the server will return the error again where it matters
	}
	states.Live = nil
	if err := utiljson.Unmarshal(reply.Body, &states.Live); err != nil {
		return fmt.Errorf("decode the reply of the API server: %w", err)
	}
	defaults := map[string]bool{}
	for _, d := range drift.Compare(states).Differences {
		defaults[d.Path] = isExtra(d)
	}
	x.differences = slices.DeleteFunc(x.differences, func(d drift.Difference) bool {
		return isExtra(d) && defaults[d.Path]
	})
	return nil
}

// settle leaves the object unchanged or changes it. It returns the error of a change that the API server refuses.
func (r *itemRun) settle(ctx context.Context, to target, x *existing, own object.Ownership) error {
	foreign := slices.ContainsFunc(x.differences, func(d drift.Difference) bool { return d.Foreign })
	r.ownable = r.updates() && !foreign && !r.engine.isNeededByServer(to, r.obj.Name)
	if len(x.differences) == 0 && x.status == nil {
		r.leave("it is in the cluster as it is in the backup")
		return nil
	}
	merges := r.entry.GroupResource == serviceAccountsResource
	if (r.updates() || merges) && r.engine.isNeededByServer(to, r.obj.Name) {
		r.leave("the server that restores needs it as it is in the cluster")
		r.engine.keepAsIs(to.gvr.GroupResource())
		return nil
	}
	takes := func(d drift.Difference) bool {
		return d.Obstacle == "" && !foreign && (r.updates() || merges && d.Kind == drift.Missing)
	}
	taken := slices.ContainsFunc(x.differences, takes)
	if taken || r.updates() && !foreign {
		if err := r.patch(ctx, to, x, takes, own); err != nil {
			return err
		}
	}
	if x.status != nil && r.updates() && !foreign {
		if err := r.engine.patchStatus(ctx, to, r.obj.Name, x.live["status"], x.status, own); err != nil {
			if fatal(ctx, err) {
				return err
			}
			r.finding.refused(err)
			r.warn(fmt.Errorf("%s exists in the cluster and its status could not be updated: %w", r.id, err))
		} else {
			taken, x.status = true, nil
		}
	}
	if taken {
		r.claim.action = actionUpdated
		r.log.Info("updated: it was in the cluster and differed from the backup")
	}
	r.reportLeft(x, takes, foreign)
	return nil
}

// reportLeft warns of the differences that remain.
func (r *itemRun) reportLeft(x *existing, takes func(drift.Difference) bool, foreign bool) {
	left := slices.DeleteFunc(slices.Clone(x.differences), takes)
	if x.status != nil && (!r.updates() || foreign) {
		left = append(left, drift.Difference{Path: "status", Kind: drift.Changed})
	}
	if len(left) == 0 {
		return
	}
	r.finding.verdict = outcome.Conflict
	if !slices.ContainsFunc(left, func(d drift.Difference) bool { return !d.Immutable }) && r.updates() {
		r.finding.verdict = outcome.Refused
	}
	if r.updates() && !foreign { // the remaining ones have an obstacle
		extent := ""
		if len(left) < len(x.differences) {
			extent = " in full"
		}
		r.warn(fmt.Errorf("%s exists in the cluster and could not be updated%s: %s", r.id, extent,
			strings.Join(obstaclesOf(left), "; ")))
		return
	}
	what := []string{fmt.Sprintf("%s exists in the cluster and differs from the backup in %s", r.id, pathsOf(left)),
		"it was left as it is"}
	if len(left) < len(x.differences) {
		what[1] = "only what it lacked was added"
	}
	if !foreign && slices.ContainsFunc(left, func(d drift.Difference) bool { return d.Obstacle == "" }) {
		what[1] += ", existingResourcePolicy update would patch it"
	}
	r.warn(errors.New(strings.Join(append(what, obstaclesOf(left)...), "; ")))
}

// obstaclesOf returns the reasons why fields remain, each once with its fields.
func obstaclesOf(left []drift.Difference) []string {
	fields := map[string][]drift.Difference{}
	var order []string
	for _, d := range left {
		if d.Obstacle == "" {
			continue
		}
		if fields[d.Obstacle] == nil {
			order = append(order, d.Obstacle)
		}
		fields[d.Obstacle] = append(fields[d.Obstacle], d)
	}
	var reasons []string
	for _, obstacle := range order {
		reasons = append(reasons, pathsOf(fields[obstacle])+": "+obstacle)
	}
	return reasons
}

// pathsOf returns the paths of the first few fields.
func pathsOf(differences []drift.Difference) string {
	const most = 5
	var paths []string
	for _, d := range differences[:min(most, len(differences))] {
		paths = append(paths, d.Path)
	}
	text := strings.Join(paths, ", ")
	if more := len(differences) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// patch changes the fields that takes accepts and labels the object with the names of this backup and restore,
// provided that no other client has changed it since it was read.
func (r *itemRun) patch(
	ctx context.Context, to target, x *existing, takes func(drift.Difference) bool, own object.Ownership,
) error {
	counts := map[string]bool{}
	for _, d := range x.differences {
		counts[d.Path] = takes(d)
	}
	changed := unstructured.Unstructured{
		Object: runtime.DeepCopyJSON(x.drift.Apply(func(d drift.Difference) bool { return counts[d.Path] })),
	}
	if r.entry.GroupResource != namespacesResource {
		labels := changed.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[velerov1.BackupNameLabel], labels[velerov1.RestoreNameLabel] = r.engine.backupLabel, r.engine.restoreLabel
		changed.SetLabels(labels)
	}
	changed.SetResourceVersion(x.meta.Metadata.ResourceVersion)
	body, err := mergePatch(x.drift.Live(), changed.Object)
	if err != nil {
		return err
	}
	request := to.write(http.MethodPatch, r.obj.Name, own.Writer, kubeapi.MergePatch, body)
	request.Conditional = true
	reply, err := r.engine.api.Do(ctx, request)
	if apierrors.IsConflict(err) && reply.Uncertain {
		r.claim.action = actionUpdated // possibly, by the attempt whose reply was lost
	}
	return err
}

// refuse reports an update that the API server refuses. The object is labelled nevertheless.
func (r *itemRun) refuse(ctx context.Context, to target, err error, own object.Ownership) {
	r.claim.action = actionNone
	r.finding.refused(err)
	r.warn(fmt.Errorf("%s exists in the cluster and could not be updated: %w", r.id, err))
	if !r.updates() || r.entry.GroupResource == namespacesResource {
		return
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{
		velerov1.BackupNameLabel: r.engine.backupLabel, velerov1.RestoreNameLabel: r.engine.restoreLabel,
	}}})
	if err == nil {
		_, err = r.engine.api.Do(ctx, to.write(http.MethodPatch, r.obj.Name, own.Writer, kubeapi.MergePatch, body))
	}
	if err != nil {
		r.warn(fmt.Errorf("%s could not be labelled with the names of backup and restore: %w", r.id, err))
	}
}

// mergePatch returns the merge patch that changes an object from one state to another.
func mergePatch(from, to map[string]any) ([]byte, error) {
	original, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	changed, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	body, err := jsonpatch.CreateMergePatch(original, changed)
	if err != nil {
		return nil, fmt.Errorf("compare with the backup: %w", err)
	}
	return body, nil
}
