package expose

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/node"
)

// selectedNodeAnnotation of a claim names the node of the pod for which the volume is provisioned.
const selectedNodeAnnotation = "volume.kubernetes.io/selected-node"

// Downloads exposes an empty volume for each DataDownload. Once the volume has the data, it becomes the volume of the
// target claim. Downloads implements node.Exposer.
type Downloads struct{ *Volumes }

// download is a DataDownload.
type download struct {
	owner
	target client.ObjectKey // the claim that gets the data
}

func downloadOf(object client.Object) (*download, error) {
	dd, ok := object.(*v2alpha1.DataDownload)
	if !ok {
		return nil, fmt.Errorf("a %T is not a DataDownload", object)
	}
	return &download{
		owner:  owner{dd, v2alpha1.SchemeGroupVersion.WithKind("DataDownload")},
		target: client.ObjectKey{Namespace: dd.Spec.TargetVolume.Namespace, Name: dd.Spec.TargetVolume.PVC},
	}, nil
}

// Expose implements node.Exposer.
func (d Downloads) Expose(ctx context.Context, object client.Object) error {
	load, err := downloadOf(object)
	if err != nil {
		return err
	}
	target, err := d.target(ctx, load)
	if err != nil {
		return err
	}
	if target == nil {
		return node.Pending(fmt.Sprintf("volume claim %s is not restored yet", load.target))
	}
	if target.Spec.VolumeName != "" {
		return &node.Final{Err: fmt.Errorf("volume claim %s is bound to volume %s already, the data is not restored into it",
			load.target, target.Spec.VolumeName)}
	}
	chosen, err := d.node(ctx, target)
	if err != nil {
		return err
	}
	if err := d.copies(ctx, load.owner, load.target.Namespace, d.Settings.RestorePVC.Copies); err != nil {
		return err
	}
	claim := new(corev1.PersistentVolumeClaim)
	err = d.ensure(ctx, load.owner, claim, func() error {
		*claim = *like(target, chosen)
		return nil
	})
	if err != nil {
		return err
	}
	pod := new(corev1.Pod)
	err = d.ensure(ctx, load.owner, pod, func() error {
		*pod = *d.pod(holder{label: velerov1.DataDownloadLabel, group: "generic-restore-exposer", name: load.GetName(),
			claim: claim, node: chosen})
		return nil
	})
	if err != nil {
		return err
	}
	return d.state(ctx, load.owner, pod, claim)
}

// target reads the claim that gets the data. It returns nil if there is none.
func (d Downloads) target(ctx context.Context, load *download) (*corev1.PersistentVolumeClaim, error) {
	target := new(corev1.PersistentVolumeClaim)
	err := d.Cluster.Live.Get(ctx, load.target, target)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get volume claim %s: %w", load.target, err)
	case target.DeletionTimestamp != nil:
		return nil, &node.Final{Err: fmt.Errorf("volume claim %s, which was to get the data, is being deleted", load.target)}
	}
	return target, nil
}

// node returns the node on which the volume of a claim has to be made, or "" for any.
func (d Downloads) node(ctx context.Context, target *corev1.PersistentVolumeClaim) (string, error) {
	name := target.Spec.StorageClassName
	if name == nil || *name == "" || d.Settings.RestorePVC.IgnoreDelayBinding {
		return "", nil
	}
	class, err := d.class(ctx, *name)
	if err != nil {
		return "", err
	}
	if class == nil {
		return "", node.Pending(fmt.Sprintf("storage class %s of volume claim %s/%s does not exist", *name, target.Namespace,
			target.Name))
	}
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return "", nil
	}
	chosen := target.Annotations[selectedNodeAnnotation]
	if chosen == "" {
		return "", node.Pending(fmt.Sprintf(
			"volume claim %s/%s waits for a pod that uses it, which chooses the node of the volume; restore such a pod, or "+
				"set restorePVC.ignoreDelayBinding in the ConfigMap of the node agents", target.Namespace, target.Name))
	}
	return chosen, nil
}

// like describes a claim whose volume is suitable for the target.
func like(target *corev1.PersistentVolumeClaim, node string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: target.Spec.AccessModes, StorageClassName: target.Spec.StorageClassName,
		VolumeMode:                target.Spec.VolumeMode,
		VolumeAttributesClassName: target.Spec.VolumeAttributesClassName, Resources: target.Spec.Resources,
	}}
	claim.Labels, claim.Annotations = maps.Clone(target.Labels), maps.Clone(target.Annotations)
	maps.DeleteFunc(claim.Annotations, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		// of the binding of the target itself
		return strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, "velero.io")
	})
	if node != "" {
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations[selectedNodeAnnotation] = node
	}
	return claim
}

// Withdraw implements node.Exposer.
func (d Downloads) Withdraw(ctx context.Context, object client.Object) error {
	load, err := downloadOf(object)
	if err != nil {
		return err
	}
	return d.withdraw(ctx, load.owner)
}

// Release implements node.Exposer.
func (d Downloads) Release(ctx context.Context, object client.Object, moved bool) error {
	load, err := downloadOf(object)
	if err != nil {
		return err
	}
	if moved {
		err = d.handOver(ctx, load)
	} else if err = d.giveUp(ctx, load); err == nil {
		err = d.discard(ctx, load.owner)
	}
	if err != nil {
		return err
	}
	return d.dropCopies(ctx, load.owner, d.Settings.RestorePVC.Copies)
}
