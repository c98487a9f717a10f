package restore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// ephemeralAnnotation of a restored claim names the pod of its generic ephemeral volume, until the pod owns the claim.
// The pod cannot start before, and its UID is not known before it exists.
const ephemeralAnnotation = "cleat.dev/ephemeral-volume-of"

// prepareEphemeral marks a claim of a generic ephemeral volume for its pod. It reports whether the claim is left out
// because the pod is not restored: a later pod of that name could not start beside the claim, and gets a claim of its
// own.
func (r *itemRun) prepareEphemeral() (leftOut bool, err error) {
	pod := r.ephemeralOf()
	if pod == "" {
		return false, nil
	}
	uses, why, err := r.podLeftOut(pod)
	switch {
	case err != nil || !uses:
		return false, err
	case why == "":
		r.ephemeralOwner = pod
		return false, nil
	case len(r.dataOf()) > 0:
		r.warn(fmt.Errorf("%s is not restored, nor is its data: it is the claim of an ephemeral volume of pod %s/%s, %s",
			r.id, r.namespace, pod, why))
	default:
		r.leave(fmt.Sprintf("it is the claim of an ephemeral volume of pod %s, %s", pod, why))
	}
	return true, nil
}

// ephemeralOf returns the name of the pod for whose generic ephemeral volume a claim was made, according to its owner
// in the backup, or "" if there is none.
func (r *itemRun) ephemeralOf() string {
	var stored metav1.PartialObjectMetadata
	if len(r.obj.OwnerReferences) == 0 || item.Unmarshal(r.raw, &stored) != nil {
		return ""
	}
	owner := metav1.GetControllerOf(&stored)
	if owner == nil || owner.APIVersion != "v1" || owner.Kind != "Pod" ||
		!strings.HasPrefix(r.entry.Name, owner.Name+"-") {
		return ""
	}
	return owner.Name
}

// podLeftOut returns the reason why a pod of the backup is not restored, or "" if it is. uses reports whether the
// claim belongs to an ephemeral volume of the pod. That is assumed if the pod is not in the backup.
func (r *itemRun) podLeftOut(name string) (uses bool, why string, err error) {
	entry, known := r.engine.archive.Find(podsResource, r.entry.Namespace, name)
	if !known {
		return true, "which is not in the backup", nil
	}
	var pod corev1.Pod
	raw, err := r.engine.archive.Read(entry)
	if err == nil {
		err = item.Unmarshal(raw, &pod)
	}
	if err != nil {
		return false, "", fmt.Errorf("read pod %s, which owns it: %w", name, err)
	}
	uses = slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Ephemeral != nil && podclaims.Name(name, &v) == r.entry.Name
	})
	phase := pod.Status.Phase
	switch {
	case !r.engine.selection.Allows(entry):
		why = "which the filters of the restore exclude"
	case phase == corev1.PodSucceeded, phase == corev1.PodFailed:
		why = "which has completed"
	}
	return uses, why, nil
}

// adoptClaims makes a pod the owner of the restored claims of its generic ephemeral volumes.
func (r *itemRun) adoptClaims(ctx context.Context, name string, uid types.UID) error {
	spec := r.obj.Top.Get("spec")
	if r.engine.dry != nil || !bytes.Contains(spec, []byte(`"ephemeral"`)) {
		return nil
	}
	var pod corev1.PodSpec
	if err := item.Unmarshal(spec, &pod); err != nil {
		return r.fail(fmt.Errorf("error restoring the volumes of %s: its spec: %w", r.id, err))
	}
	for i := range pod.Volumes {
		if pod.Volumes[i].Ephemeral == nil {
			continue
		}
		claim := podclaims.Name(name, &pod.Volumes[i])
		if err := r.adopt(ctx, claim, name, uid); err != nil {
			if fatal(ctx, err) {
				return err
			}
			if err := r.fail(fmt.Errorf("persistent volume claim %s/%s cannot be given to pod %s, which does not start "+
				"without it: %w", r.namespace, claim, name, err)); err != nil {
				return err
			}
		}
	}
	return nil
}

// adopt makes a pod the owner of a claim, if that was restored for the pod. Another claim of that name is not changed.
func (r *itemRun) adopt(ctx context.Context, claim, pod string, uid types.UID) error {
	to := target{gvr: claimsResource.WithVersion("v1"), namespace: r.namespace}
	const attempts = 5 // controllers write to the claim as well
	for attempt := 1; ; attempt++ {
		reply, err := r.engine.api.Do(ctx, to.read(claim, kubeapi.Metadata))
		if apierrors.IsNotFound(err) {
			return nil // the pod gets a new claim
		}
		var live metav1.PartialObjectMetadata
		if err == nil {
			err = json.Unmarshal(reply.Body, &live)
		}
		if err != nil {
			return err
		}
		if live.Annotations[ephemeralAnnotation] != pod || live.DeletionTimestamp != nil ||
			metav1.GetControllerOf(&live) != nil {
			return nil
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": live.ResourceVersion, "annotations": map[string]any{ephemeralAnnotation: nil},
			"ownerReferences": append(live.OwnerReferences, metav1.OwnerReference{
				APIVersion: "v1", Kind: "Pod", Name: pod, UID: uid, Controller: new(true), BlockOwnerDeletion: new(true),
			}),
		}})
		if err != nil {
			return err
		}
		request := to.write(http.MethodPatch, claim, r.engine.options.FieldManager, kubeapi.MergePatch, body)
		request.Conditional = true
		if _, err = r.engine.api.Do(ctx, request); !apierrors.IsConflict(err) || attempt == attempts {
			return err
		}
	}
}
