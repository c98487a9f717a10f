package expose

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/kube/orders"
	"github.com/cleat-dev/cleat/server/internal/node"
)

const (
	// downloadLabel of a persistent volume is the UID of the DataDownload that has filled it. The label is set once
	// all data was moved.
	downloadLabel = "cleat.dev/data-download"
	// policyAnnotation of a persistent volume is its original reclaim policy, while the volume exists without a claim.
	policyAnnotation = "cleat.dev/reclaim-policy"
)

// Annotations by which controllers mark volumes and claims as bound.
const (
	bindCompletedAnnotation     = "pv.kubernetes.io/bind-completed"
	boundByControllerAnnotation = "pv.kubernetes.io/bound-by-controller"
)

// handOver binds the volume that a download has filled to the target claim. Its first write labels the volume, so that
// later writes and repeated calls find it.
func (d Downloads) handOver(ctx context.Context, load *download) error {
	pv, err := d.filled(ctx, load)
	if err != nil {
		return err
	}
	if pv != nil && pv.Annotations[policyAnnotation] == "" {
		return nil // done
	}
	target, err := d.target(ctx, load)
	if err != nil {
		return err
	}
	if target == nil {
		return &node.Final{Err: fmt.Errorf("volume claim %s, which was to get the data, was deleted", load.target)}
	}
	if pv == nil {
		if pv, err = d.begin(ctx, load, target); err != nil {
			return err
		}
	}
	if target.Spec.VolumeName != "" && target.Spec.VolumeName != pv.Name {
		return &node.Final{Err: fmt.Errorf("volume claim %s was bound to volume %s meanwhile, the data is not restored "+
			"into it", load.target, target.Spec.VolumeName)}
	}
	if err := d.unexpose(ctx, load); err != nil {
		return err
	}
	if err := d.bind(ctx, pv, target); err != nil {
		return fmt.Errorf("bind volume %s, which has the data, to volume claim %s: %w", pv.Name, load.target, err)
	}
	if pv.Status.Phase != corev1.VolumeBound || target.Status.Phase != corev1.ClaimBound {
		return node.Pending(fmt.Sprintf("volume %s, which has the data, is not bound to volume claim %s yet", pv.Name,
			load.target))
	}
	return d.patch(ctx, pv, func() {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(pv.Annotations[policyAnnotation])
		delete(pv.Annotations, policyAnnotation)
	})
}

// filled returns the volume that a download has filled, if handing it over has begun.
func (d Downloads) filled(ctx context.Context, load *download) (*corev1.PersistentVolume, error) {
	var list corev1.PersistentVolumeList
	if err := d.Cluster.Live.List(ctx, &list, client.MatchingLabels{downloadLabel: string(load.GetUID())}); err != nil {
		return nil, fmt.Errorf("list the volumes of %s: %w", load.owner, err)
	}
	for i := range list.Items {
		if pv := &list.Items[i]; load.filled(pv) {
			return pv, nil
		}
	}
	return nil, nil
}

// filled reports whether a volume is, or was, bound to the claim of a download, or to the one that gets the data. The
// label alone proves nothing.
func (d *download) filled(pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && (client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name} == d.target ||
		ref.Namespace == d.GetNamespace() && ref.Name == d.GetName())
}

// begin marks the volume of a download as filled, and prevents its deletion with its claim.
func (d Downloads) begin(
	ctx context.Context, load *download, target *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolume, error) {
	if target.Spec.VolumeName != "" {
		return nil, &node.Final{Err: fmt.Errorf("volume claim %s was bound to volume %s meanwhile, the data is not "+
			"restored into it", load.target, target.Spec.VolumeName)}
	}
	claim := new(corev1.PersistentVolumeClaim)
	exists, err := d.find(ctx, load.owner, claim)
	if err != nil {
		return nil, err
	}
	if !exists || claim.Spec.VolumeName == "" {
		return nil, &node.Final{Err: fmt.Errorf("volume claim %s/%s, whose volume has the data, was deleted by another "+
			"client", load.GetNamespace(), load.GetName())}
	}
	pv := new(corev1.PersistentVolume)
	if err := d.Cluster.Live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, pv); err != nil {
		return nil, fmt.Errorf("get volume %s, which has the data: %w", claim.Spec.VolumeName, err)
	}
	return pv, d.patch(ctx, pv, func() {
		set(&pv.Labels, downloadLabel, string(load.GetUID()))
		set(&pv.Annotations, policyAnnotation, string(pv.Spec.PersistentVolumeReclaimPolicy))
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
}

// unexpose deletes the pod and the claim of a download. The error is Pending until they no longer exist.
func (d Downloads) unexpose(ctx context.Context, load *download) error {
	for _, object := range []client.Object{new(corev1.Pod), new(corev1.PersistentVolumeClaim)} {
		exists, err := d.find(ctx, load.owner, object)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		if object.GetDeletionTimestamp() == nil {
			if err := d.remove(ctx, load.owner, object); err != nil {
				return err
			}
		}
		return node.Pending(fmt.Sprintf("%s %s, which exposed the volume, is being deleted", nameOf(object), load.GetName()))
	}
	return nil
}

// bind makes a volume and a claim refer to each other.
func (d Downloads) bind(ctx context.Context, pv *corev1.PersistentVolume, target *corev1.PersistentVolumeClaim) error {
	if target.Spec.VolumeName == "" {
		before := target.DeepCopy()
		target.Spec.VolumeName = pv.Name
		delete(target.Annotations, bindCompletedAnnotation)
		delete(target.Annotations, boundByControllerAnnotation)
		if err := d.Cluster.Patch(ctx, target,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	if ref := pv.Spec.ClaimRef; ref != nil && ref.UID == target.UID {
		return nil
	}
	return d.patch(ctx, pv, func() {
		pv.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
			Namespace: target.Namespace, Name: target.Name, UID: target.UID}
		delete(pv.Annotations, boundByControllerAnnotation)
		if target.Spec.Selector != nil {
			for key, value := range target.Spec.Selector.MatchLabels { // of whoever has created the claim
				if !orders.Is(key) {
					set(&pv.Labels, key, value)
				}
			}
		}
	})
}

// giveUp ends a handover that has begun: it completes the handover if the target claim refers to the volume, and
// deletes the volume otherwise.
func (d Downloads) giveUp(ctx context.Context, load *download) error {
	pv, err := d.filled(ctx, load)
	if err != nil || pv == nil || pv.Annotations[policyAnnotation] == "" {
		return err
	}
	var target corev1.PersistentVolumeClaim
	err = d.Cluster.Live.Get(ctx, load.target, &target)
	switch {
	case err == nil && target.DeletionTimestamp == nil && target.Spec.VolumeName == pv.Name:
		return d.handOver(ctx, load)
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("get volume claim %s: %w", load.target, err)
	}
	_, err = d.reclaim(ctx, pv.Name)
	return err
}

// Moved implements node.Exposer.
func (d Downloads) Moved(ctx context.Context, object client.Object) (bool, error) {
	load, err := downloadOf(object)
	if err != nil {
		return false, err
	}
	pv, err := d.filled(ctx, load)
	return pv != nil, err
}

// patch changes a volume, on the condition that no other client has changed it.
func (d Downloads) patch(ctx context.Context, pv *corev1.PersistentVolume, change func()) error {
	before := pv.DeepCopy()
	change()
	err := d.Cluster.Patch(ctx, pv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("change volume %s: %w", pv.Name, err)
	}
	return nil
}

func set(in *map[string]string, key, value string) {
	if *in == nil {
		*in = map[string]string{}
	}
	(*in)[key] = value
}
