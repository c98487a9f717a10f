package expose

import (
	"context"
	"errors"
	"fmt"
	"maps"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/kube/csisnapshots"
	"github.com/cleat-dev/cleat/server/internal/node"
)

// Uploads exposes the snapshots of DataUploads as volumes. It implements node.Exposer.
type Uploads struct{ *Volumes }

// upload is a DataUpload with the names of its VolumeSnapshot before and after HandOver.
type upload struct {
	owner
	spec     *v2alpha1.DataUploadSpec
	marks    csisnapshots.Marks // of the VolumeSnapshot
	from, to types.NamespacedName
}

func uploadOf(object client.Object) (*upload, error) {
	du, ok := object.(*v2alpha1.DataUpload)
	if !ok {
		return nil, fmt.Errorf("a %T is not a DataUpload", object)
	}
	if du.Spec.CSISnapshot == nil || du.Spec.CSISnapshot.VolumeSnapshot == "" {
		return nil, &node.Final{Err: errors.New("spec.csiSnapshot.volumeSnapshot is empty, so there is no snapshot to move")}
	}
	marks := csisnapshots.Marks{Operation: du.Labels[velerov1.AsyncOperationIDLabel]}
	if backup := metav1.GetControllerOf(du); backup != nil {
		marks.Backup = backup.UID
	}
	return &upload{
		owner: owner{du, v2alpha1.SchemeGroupVersion.WithKind("DataUpload")}, spec: &du.Spec, marks: marks,
		from: types.NamespacedName{Namespace: du.Spec.SourceNamespace, Name: du.Spec.CSISnapshot.VolumeSnapshot},
		to:   client.ObjectKeyFromObject(du),
	}, nil
}

// Expose implements node.Exposer.
func (u Uploads) Expose(ctx context.Context, object client.Object) error {
	load, err := uploadOf(object)
	if err != nil {
		return err
	}
	snapshot, wait, err := u.Snapshots.HandOver(ctx, load.marks, load.from, load.to)
	switch {
	case errors.Is(err, csisnapshots.ErrNotTaken), errors.Is(err, csisnapshots.ErrNameTaken):
		return &node.Final{Err: err}
	case err != nil:
		return err
	case wait != "":
		return node.Pending(wait)
	}
	configured := u.Settings.BackupPVC[load.spec.CSISnapshot.StorageClass]
	if err := u.copies(ctx, load.owner, load.spec.SourceNamespace, configured.Copies); err != nil {
		return err
	}
	claim := new(corev1.PersistentVolumeClaim)
	if err := u.ensure(ctx, load.owner, claim, func() error { return u.claim(ctx, load, snapshot, claim) }); err != nil {
		return err
	}
	pod := new(corev1.Pod)
	err = u.ensure(ctx, load.owner, pod, func() error {
		topology, err := u.topology(ctx, load)
		if err != nil {
			return err
		}
		*pod = *u.pod(holder{
			topology: topology,
			label:    velerov1.DataUploadLabel, group: "snapshot-exposer", name: load.GetName(), claim: claim,
			readOnly: configured.ReadOnly, unlabelled: configured.SPCNoRelabeling,
		})
		return nil
	})
	if err != nil {
		return err
	}
	return u.state(ctx, load.owner, pod, claim)
}

// topology returns the nodes that can access the source volume, as Velero does: if the storage class chooses the place of
// a volume by the pod, the volume that is made of the snapshot would otherwise be made for a node that cannot have it. It
// is nil if that is not known, or if all nodes can.
func (u Uploads) topology(ctx context.Context, load *upload) (*corev1.NodeSelector, error) {
	var class storagev1.StorageClass
	var source corev1.PersistentVolumeClaim
	var volume corev1.PersistentVolume
	for _, step := range []struct {
		object client.Object
		key    func() types.NamespacedName
		known  func() bool
	}{
		{&class, func() types.NamespacedName { return types.NamespacedName{Name: load.spec.CSISnapshot.StorageClass} },
			func() bool {
				return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
			}},
		{&source, func() types.NamespacedName {
			return types.NamespacedName{Namespace: load.spec.SourceNamespace, Name: load.spec.SourcePVC}
		}, func() bool { return source.Spec.VolumeName != "" }},
		{&volume, func() types.NamespacedName { return types.NamespacedName{Name: source.Spec.VolumeName} },
			func() bool { return volume.Spec.NodeAffinity != nil }},
	} {
		err := u.Cluster.Live.Get(ctx, step.key(), step.object)
		switch {
		case apierrors.IsNotFound(err) || err == nil && !step.known():
			return nil, nil //nolint:nilnil // there is none
		case err != nil:
			return nil, fmt.Errorf("find the nodes of the source volume of %s: %w", load.owner, err)
		}
	}
	return volume.Spec.NodeAffinity.Required, nil
}

// claim describes the claim whose volume is made of a snapshot.
func (u Uploads) claim(
	ctx context.Context, load *upload, snapshot csisnapshots.Handed, claim *corev1.PersistentVolumeClaim,
) error {
	class, group := load.spec.CSISnapshot.StorageClass, snapshotv1.GroupName
	configured := u.Settings.BackupPVC[class]
	if configured.StorageClass != "" {
		class = configured.StorageClass
	}
	access := corev1.ReadWriteOnce
	if configured.ReadOnly {
		access = corev1.ReadOnlyMany
	}
	if snapshot.Mode == nil || snapshot.RestoreSize == nil {
		if err := u.complete(ctx, load, &snapshot); err != nil {
			return err
		}
	}
	*claim = corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{access}, VolumeMode: snapshot.Mode,
		DataSource: &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: load.to.Name},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: *snapshot.RestoreSize},
		},
	}}
	claim.Annotations = maps.Clone(configured.Annotations)
	return nil
}

// complete sets the fields of a snapshot that are not known, from the claim of the source volume.
func (u Uploads) complete(ctx context.Context, load *upload, snapshot *csisnapshots.Handed) error {
	var source corev1.PersistentVolumeClaim
	key := types.NamespacedName{Namespace: load.spec.SourceNamespace, Name: load.spec.SourcePVC}
	err := u.Cluster.Live.Get(ctx, key, &source)
	switch {
	case apierrors.IsNotFound(err) && snapshot.RestoreSize == nil:
		return &node.Final{Err: fmt.Errorf("the size of the volume is not known: its CSI driver reports none for the "+
			"snapshot, and volume claim %s does not exist any more", key)}
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get volume claim %s: %w", key, err)
	}
	if snapshot.Mode == nil {
		snapshot.Mode = source.Spec.VolumeMode
	}
	if snapshot.RestoreSize == nil {
		size := source.Status.Capacity[corev1.ResourceStorage]
		if size.IsZero() {
			size = source.Spec.Resources.Requests[corev1.ResourceStorage]
		}
		snapshot.RestoreSize = &size
	}
	return nil
}

// Moved implements node.Exposer. The volume of an upload is not handed over.
func (Uploads) Moved(context.Context, client.Object) (bool, error) { return false, nil }

// Withdraw implements node.Exposer.
func (u Uploads) Withdraw(ctx context.Context, object client.Object) error {
	load, err := uploadOf(object)
	if err != nil {
		return nil //nolint:nilerr // nothing was exposed
	}
	return u.withdraw(ctx, load.owner)
}

// Release implements node.Exposer.
func (u Uploads) Release(ctx context.Context, object client.Object, _ bool) error {
	load, err := uploadOf(object)
	if err != nil {
		return nil //nolint:nilerr // nothing was exposed
	}
	if err := u.discard(ctx, load.owner); err != nil {
		return err
	}
	if err := u.dropCopies(ctx, load.owner, u.Settings.BackupPVC[load.spec.CSISnapshot.StorageClass].Copies); err != nil {
		return err
	}
	return u.Snapshots.Discard(ctx, load.marks, load.from, load.to)
}
