package expose

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/csisnapshots"
	"github.com/cleat-dev/cleat/server/internal/node"
	"github.com/cleat-dev/cleat/server/internal/node/settings"
)

// Volumes has the methods and fields that the exposers share.
type Volumes struct {
	Cluster   *run.Cluster
	Snapshots csisnapshots.Snapshots
	Settings  *settings.Settings
	// Agent is the pod of a node agent. Pods that expose volumes have its image, tolerations and affinity.
	Agent *corev1.Pod

	unattended sync.Map // UIDs of pods on nodes without an agent, and since when
}

// provisionerAnnotation of a claim names the provisioner that was chosen to make its volume.
const provisionerAnnotation = "volume.kubernetes.io/storage-provisioner"

// owner is a load as the owner of objects.
type owner struct {
	client.Object
	kind schema.GroupVersionKind
}

func (o owner) String() string { return o.kind.Kind + " " + o.GetName() }

// describe sets the name of the load on an object, and makes the load its owner.
func (o owner) describe(object client.Object) {
	object.SetNamespace(o.GetNamespace())
	object.SetName(o.GetName())
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: o.kind.GroupVersion().String(), Kind: o.kind.Kind, Name: o.GetName(), UID: o.GetUID(),
		Controller: new(true),
	}})
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[velerov1.ExcludeFromBackupLabel] = "true"
	object.SetLabels(labels)
}

// read reads the object of a load into object, and reports whether there is one.
func (v *Volumes) read(ctx context.Context, o owner, object client.Object) (bool, error) {
	err := v.Cluster.Live.Get(ctx, client.ObjectKeyFromObject(o.Object), object)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %s of %s: %w", nameOf(object), o, err)
	case metav1.IsControlledBy(object, o.Object):
		return true, nil
	case object.GetDeletionTimestamp() != nil:
		return false, node.Pending(fmt.Sprintf("%s %s of a former load of the same name is being deleted",
			nameOf(object), o.GetName()))
	}
	return false, &node.Final{Err: fmt.Errorf("%s %s/%s exists and does not belong to %s; rename or delete it",
		nameOf(object), o.GetNamespace(), o.GetName(), o)}
}

// ensure reads the object of a load into object. If there is none, wanted fills in object, and ensure creates it.
func (v *Volumes) ensure(ctx context.Context, o owner, object client.Object, wanted func() error) error {
	exists, err := v.read(ctx, o, object)
	switch {
	case err != nil:
		return err
	case exists && object.GetDeletionTimestamp() != nil && isPod(object): // a drain evicts it, for instance
		return node.Pending(fmt.Sprintf("pod %s, which exposes the volume, is being deleted, and is created again",
			o.GetName()))
	case exists && object.GetDeletionTimestamp() != nil:
		return &node.Final{Err: fmt.Errorf("%s %s, which exposes the volume, was deleted by another client", nameOf(object),
			o.GetName())}
	case exists:
		return nil
	}
	if err := wanted(); err != nil {
		return err
	}
	o.describe(object)
	err = v.Cluster.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) { // created by a request whose reply was lost
		return node.Pending(fmt.Sprintf("%s %s was just created", nameOf(object), o.GetName()))
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", nameOf(object), o.GetName(), err)
	}
	return nil
}

// withdraw deletes the pod of a load, so that the next one can run on another node.
func (v *Volumes) withdraw(ctx context.Context, o owner) error {
	return v.remove(ctx, o, new(corev1.Pod))
}

// discard deletes the pod and the claim of a load, with the volume of the claim. The error is Pending while a volume
// is being made that would outlive its claim.
func (v *Volumes) discard(ctx context.Context, o owner) error {
	claim := new(corev1.PersistentVolumeClaim)
	exists, err := v.find(ctx, o, claim)
	if err != nil {
		return err
	}
	if exists {
		if err := v.doom(ctx, claim); err != nil {
			return err
		}
	}
	if err := v.remove(ctx, o, new(corev1.Pod)); err != nil || !exists {
		return err
	}
	return v.remove(ctx, o, claim)
}

// doom makes sure that the volume of a claim is deleted with the claim.
func (v *Volumes) doom(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume := claim.Spec.VolumeName
	if volume == "" {
		volume = "pvc-" + string(claim.UID) // as provisioners call it
	}
	made, err := v.reclaim(ctx, volume)
	if err != nil || made || claim.Spec.VolumeName != "" {
		return err
	}
	coming, err := v.coming(ctx, claim)
	if err == nil && coming {
		return node.Pending(fmt.Sprintf("the volume of volume claim %s is being made, and is deleted after that", claim.Name))
	}
	return err
}

// How long a volume may take to be made: after its claim was created, and until a provisioner was chosen. Slower
// volumes are not waited for.
const (
	makingVolume        = 10 * time.Minute
	choosingProvisioner = 15 * time.Second
)

// coming reports whether a provisioner may be making a volume for a claim, and the storage class would retain the
// volume after the claim.
func (v *Volumes) coming(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	limit := choosingProvisioner
	if claim.Annotations[provisionerAnnotation] != "" {
		limit = makingVolume
	}
	if claim.Spec.StorageClassName == nil || time.Since(claim.CreationTimestamp.Time) > limit {
		return false, nil
	}
	class, err := v.class(ctx, *claim.Spec.StorageClassName)
	return class != nil && class.ReclaimPolicy != nil && *class.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete, err
}

// class reads a storage class. It returns nil if there is none of that name.
func (v *Volumes) class(ctx context.Context, name string) (*storagev1.StorageClass, error) {
	class := new(storagev1.StorageClass)
	err := v.Cluster.Live.Get(ctx, client.ObjectKey{Name: name}, class)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get storage class %s: %w", name, err)
	}
	return class, nil
}

// reclaim makes a volume deleted with its claim, whatever its storage class specifies, and reports whether the volume
// exists.
func (v *Volumes) reclaim(ctx context.Context, name string) (exists bool, err error) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err = v.Cluster.Live.Get(ctx, client.ObjectKeyFromObject(pv), pv)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil && pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		before := pv.DeepCopy()
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		delete(pv.Annotations, policyAnnotation)
		err = v.Cluster.Patch(ctx, pv, client.MergeFrom(before))
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("have persistent volume %s deleted with its claim: %w", name, err)
	}
	return true, nil
}

// find reads the object of a load into object, and reports whether there is one. An object of another owner does not
// count.
func (v *Volumes) find(ctx context.Context, o owner, object client.Object) (bool, error) {
	err := v.Cluster.Live.Get(ctx, client.ObjectKeyFromObject(o.Object), object)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get %s of %s: %w", nameOf(object), o, err)
	}
	return err == nil && metav1.IsControlledBy(object, o.Object), nil
}

// remove deletes the object of a load immediately. A missing object is not an error.
func (v *Volumes) remove(ctx context.Context, o owner, object client.Object) error {
	if object.GetUID() == "" {
		if exists, err := v.find(ctx, o, object); err != nil || !exists {
			return err
		}
	}
	uid := object.GetUID()
	err := v.Cluster.Delete(ctx, object, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", nameOf(object), o.GetName(), err)
	}
	return nil
}

func isPod(object client.Object) bool {
	_, is := object.(*corev1.Pod)
	return is
}

// nameOf returns the name of an object in messages.
func nameOf(object client.Object) string {
	switch object.(type) {
	case *corev1.Pod:
		return "pod"
	case *corev1.PersistentVolumeClaim:
		return "volume claim"
	case *corev1.Secret:
		return "Secret"
	case *corev1.ConfigMap:
		return "ConfigMap"
	default:
		return fmt.Sprintf("%T", object)
	}
}
