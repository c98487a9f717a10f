package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/dryrun"
	"github.com/cleat-dev/cleat/server/hook"
	"github.com/cleat-dev/cleat/server/kubeapi"
	"github.com/cleat-dev/cleat/server/restore/object"
)

// handleExisting handles an object that exists in the cluster already. One that equals that of the backup is left
// alone; service accounts are merged; others are left alone with a warning or patched, as existingResourcePolicy says.
func (r *itemRun) handleExisting(ctx context.Context, to target, raw []byte, own object.Ownership) error {
	r.claim.exists = true
	r.obj.RemoveAnnotations(ephemeralAnnotation) // of what this restore creates only
	live, err := comparison(raw)
	if err != nil {
		return r.fail(fmt.Errorf("decode %s as it is in the cluster: %w", r.id, err))
	}
	wanted, err := comparison(r.obj.Encode())
	if err != nil {
		return r.fail(fmt.Errorf("decode %s as it is in the backup: %w", r.id, err))
	}
	update := r.engine.restore.Spec.ExistingResourcePolicy == velerov1.PolicyTypeUpdate
	before := live.DeepCopy()
	if !update && r.isFromFormerAttempt(before) {
		return r.resume(ctx, to, raw, own)
	}
	if made, err := decodeWritten(raw); err == nil && to.gvr.GroupResource() == podsResource { // live was decoded from it
		if r.engine.resumed && hook.IsMarked(before.GetAnnotations(), r.engine.restore.UID) {
			r.runHooks(made)
		}
		if err := r.adoptClaims(ctx, made.Metadata.Name, made.Metadata.UID); err != nil {
			return err
		}
	}
	copyLabels(live, wanted, velerov1.BackupNameLabel, velerov1.RestoreNameLabel)

	switch {
	case equality.Semantic.DeepEqual(live.Object, wanted.Object):
		if update {
			r.relabel(ctx, to, before, live, own)
		}
		r.leave("it is in the cluster as it is in the backup")
	case to.gvr.GroupResource() == serviceAccountsResource:
		r.mergeServiceAccount(ctx, to, before, live, wanted, own, update)
	case update && r.engine.isNeededByServer(to, r.obj.Name):
		r.leave("the server that restores needs it as it is in the cluster")
		r.engine.keepAsIs(to.gvr.GroupResource())
	case update:
		err := r.patch(ctx, to, before, wanted, own)
		if err == nil {
			r.claim.action = actionUpdated
			r.log.Info("updated: it was in the cluster and differed from the backup")
			break
		}
		r.finding.refused(err)
		r.warn(fmt.Errorf("%s exists in the cluster and could not be updated: %w", r.id, err))
		r.relabel(ctx, to, before, live, own)
	default:
		r.finding.verdict = dryrun.Conflict
		r.warn(fmt.Errorf("%s exists in the cluster and differs from the backup; it was left as it is, existingResourcePolicy update would patch it", r.id))
	}
	return causeOf(ctx)
}

// comparison decodes an object without what is ignored when two are compared: the metadata of one instance, the
// status, and the ownership of fields.
func comparison(raw []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &o.Object); err != nil {
		return nil, err
	}
	meta, ok := o.Object["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("metadata is a %T, want an object", o.Object["metadata"])
	}
	for _, key := range object.InstanceMetadata() {
		delete(meta, key)
	}
	delete(meta, "managedFields")
	delete(o.Object, "status")
	return o, nil
}

// copyLabels copies the labels with these keys.
func copyLabels(to, from *unstructured.Unstructured, keys ...string) {
	labels := to.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	source := from.GetLabels()
	for _, key := range keys {
		if value, ok := source[key]; ok {
			labels[key] = value
		}
	}
	to.SetLabels(labels)
}

// patch changes an object from one state to another by a merge patch, unless they are equal.
func (r *itemRun) patch(ctx context.Context, to target, from, wanted *unstructured.Unstructured, own object.Ownership) error {
	original, err := json.Marshal(from.Object)
	if err != nil {
		return err
	}
	changed, err := json.Marshal(wanted.Object)
	if err != nil {
		return err
	}
	body, err := jsonpatch.CreateMergePatch(original, changed)
	if err != nil {
		return fmt.Errorf("compare with the backup: %w", err)
	}
	if string(body) == "{}" {
		return nil
	}
	_, err = r.engine.api.Do(ctx, to.write(http.MethodPatch, r.obj.Name, own.Writer, kubeapi.MergePatch, body))
	return err
}

// relabel labels an object that is otherwise left alone with the names of this backup and restore.
func (r *itemRun) relabel(ctx context.Context, to target, before, labelled *unstructured.Unstructured, own object.Ownership) {
	if err := r.patch(ctx, to, before, labelled, own); err != nil {
		r.warn(fmt.Errorf("%s could not be labelled with the names of backup and restore: %w", r.id, err))
	}
}

// mergeServiceAccount adds the secrets, pull secrets, labels and annotations of the backup to a service account.
// Controllers create some service accounts before a restore can.
func (r *itemRun) mergeServiceAccount(ctx context.Context, to target, before, live, wanted *unstructured.Unstructured, own object.Ownership, update bool) {
	merged := live.DeepCopy()
	for _, list := range []string{"secrets", "imagePullSecrets"} {
		if union := unionByName(live.Object[list], wanted.Object[list]); union != nil {
			merged.Object[list] = union
		}
	}
	merged.SetLabels(unionOfMaps(live.GetLabels(), wanted.GetLabels()))
	merged.SetAnnotations(unionOfMaps(live.GetAnnotations(), wanted.GetAnnotations()))
	if equality.Semantic.DeepEqual(live.Object, merged.Object) {
		return
	}
	// The labels of the restore alone are no reason to change the account.
	if err := r.patch(ctx, to, before, merged, own); err != nil {
		r.finding.refused(err)
		r.warn(fmt.Errorf("%s exists in the cluster and could not be merged with the backup's: %w", r.id, err))
		if update {
			r.relabel(ctx, to, before, live, own)
		}
		return
	}
	r.claim.action = actionUpdated
	r.log.Info("merged: the service account was in the cluster")
}

// unionByName returns the references of first and those of second with other names.
func unionByName(first, second any) []any {
	union, _ := first.([]any)
	have := map[string]bool{}
	for _, entry := range union {
		have[referenceName(entry)] = true
	}
	more, _ := second.([]any)
	for _, entry := range more {
		if name := referenceName(entry); !have[name] {
			have[name] = true
			union = append(union, entry)
		}
	}
	return union
}

func referenceName(entry any) string {
	reference, _ := entry.(map[string]any)
	name, _ := reference["name"].(string)
	return name
}

// unionOfMaps returns first with the keys of second that it lacks.
func unionOfMaps(first, second map[string]string) map[string]string {
	union := maps.Clone(second)
	if union == nil {
		return first
	}
	maps.Copy(union, first)
	return union
}
