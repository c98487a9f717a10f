package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/kubeapi"
)

// restoreLabels are the labels that a restore adds.
var restoreLabels = []string{velerov1.BackupNameLabel, velerov1.RestoreNameLabel}

// meetExisting deals with an object that is in the cluster already. One that equals the backup's is left
// alone in silence; service accounts are merged; others are left alone with a warning or patched, as
// existingResourcePolicy says. gone says that there is none after all.
func (r *itemRun) meetExisting(ctx context.Context, to target, own ownership) (gone bool, err error) {
	reply, err := r.engine.api.Do(ctx, to.read(r.obj.Name, kubeapi.JSON))
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		if fatal(ctx, err) {
			return false, err
		}
		r.warn(fmt.Errorf("%s exists in the cluster but cannot be read, so it was left as it is: %w", r.id, err))
		return false, nil
	}
	r.claim.exists = true
	live, err := comparison(reply.Body)
	if err != nil {
		return false, r.fail(fmt.Errorf("decode %s as it is in the cluster: %w", r.id, err))
	}
	wanted, err := comparison(r.obj.encode())
	if err != nil {
		return false, r.fail(fmt.Errorf("decode %s as it is in the backup: %w", r.id, err))
	}
	update := r.engine.restore.Spec.ExistingResourcePolicy == velerov1.PolicyTypeUpdate
	asIs := live.DeepCopy()
	copyLabels(live, wanted, restoreLabels)

	switch {
	case equality.Semantic.DeepEqual(live.Object, wanted.Object):
		if update {
			r.relabel(ctx, to, asIs, live, own)
		}
		r.log.Info("not restored: it is in the cluster as it is in the backup")
	case to.gvr.GroupResource() == grServiceAccounts:
		r.mergeServiceAccount(ctx, to, asIs, live, wanted, own, update)
	case update:
		err := r.patch(ctx, to, asIs, wanted, own)
		if err == nil {
			r.claim.action = actionUpdated
			r.log.Info("updated: it was in the cluster and differed from the backup")
			break
		}
		r.warn(fmt.Errorf("%s exists in the cluster and could not be updated: %w", r.id, err))
		r.relabel(ctx, to, asIs, live, own)
	default:
		r.warn(fmt.Errorf("%s exists in the cluster and differs from the backup; it was left as it is, existingResourcePolicy update would patch it", r.id))
	}
	return false, fatalOnly(ctx)
}

// comparison decodes an object and drops what does not count when two are compared: metadata of one
// creation, status, and who owns which fields.
func comparison(raw []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &o.Object); err != nil {
		return nil, err
	}
	meta, ok := o.Object["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("metadata is a %T, want an object", o.Object["metadata"])
	}
	for _, key := range resetMetadata {
		delete(meta, key)
	}
	delete(meta, "managedFields")
	delete(o.Object, "status")
	return o, nil
}

// copyLabels gives one object the labels of those keys of another.
func copyLabels(to, from *unstructured.Unstructured, keys []string) {
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

// patch turns one object into another by a merge patch, unless they are equal.
func (r *itemRun) patch(ctx context.Context, to target, from, wanted *unstructured.Unstructured, own ownership) error {
	before, err := json.Marshal(from.Object)
	if err != nil {
		return err
	}
	after, err := json.Marshal(wanted.Object)
	if err != nil {
		return err
	}
	body, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return fmt.Errorf("compare with the backup: %w", err)
	}
	if string(body) == "{}" {
		return nil
	}
	_, err = r.engine.api.Do(ctx, to.write(http.MethodPatch, r.obj.Name, own.writer, kubeapi.MergePatch, body))
	return err
}

// relabel marks an object that is left as it is with the names of this backup and restore.
func (r *itemRun) relabel(ctx context.Context, to target, asIs, labelled *unstructured.Unstructured, own ownership) {
	if err := r.patch(ctx, to, asIs, labelled, own); err != nil {
		r.warn(fmt.Errorf("%s could not be labelled with the names of backup and restore: %w", r.id, err))
	}
}

// mergeServiceAccount adds to a service account what the backup's has more: secrets, pull secrets,
// labels, annotations. Controllers make some of them before a restore can.
func (r *itemRun) mergeServiceAccount(ctx context.Context, to target, asIs, live, wanted *unstructured.Unstructured, own ownership, update bool) {
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
	// The restore's labels alone are no reason to touch the account; they come along with a change.
	if err := r.patch(ctx, to, asIs, merged, own); err != nil {
		r.warn(fmt.Errorf("%s exists in the cluster and could not be merged with the backup's: %w", r.id, err))
		if update {
			r.relabel(ctx, to, asIs, live, own)
		}
		return
	}
	r.claim.action = actionUpdated
	r.log.Info("merged: the service account was in the cluster")
}

// unionByName appends to a list of references those of another that it does not name.
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

// unionOfMaps adds the keys that first lacks.
func unionOfMaps(first, second map[string]string) map[string]string {
	union := maps.Clone(second)
	if union == nil {
		return first
	}
	maps.Copy(union, first)
	return union
}

// allocated says whether a service was refused for a port or an address that is allocated already, which
// the server says before it says that the service exists.
func allocated(err error, kind string) bool {
	var status apierrors.APIStatus
	if kind != "Service" || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	causes := status.Status().Details.Causes
	for _, cause := range causes {
		if !strings.Contains(cause.Message, "provided port is already allocated") && !strings.Contains(cause.Message, "provided IP is already allocated") {
			return false
		}
	}
	return len(causes) > 0
}
