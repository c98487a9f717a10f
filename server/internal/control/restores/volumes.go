package restores

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

// provisionedByAnnotation of a volume names the provisioner that has made it.
const provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"

// settleVolumes waits until the claims are bound whose volumes are made of CSI snapshots, and gives each volume that
// was made for a claim with data what the one in the backup had (settle). It deletes the restored snapshots from the
// cluster, because their claims do not need them any more; the storage system keeps its own. A claim that waits for a
// pod is not waited for, and keeps its snapshot. settleVolumes can be repeated until it reports that it has ended, with
// the errors.
func (r *Finalizer) settleVolumes(
	ctx context.Context, restore *velerov1.Restore, log hclog.Logger,
) (ended bool, failed results.Result, err error) {
	final := r.waits.of(restore.UID, log, r.Now())
	if final.settled {
		return true, final.failed, nil
	}
	var awaited []types.NamespacedName // claims
	defer func() {
		if err == nil {
			final.forClaims(awaited)
		}
	}()
	var left []types.NamespacedName // snapshots
	if r.VolumeSnapshots != nil {
		if left, err = r.VolumeSnapshots.Restored(ctx, restore.UID); err != nil {
			return false, failed, err
		}
	}
	var former map[types.NamespacedName]*volumes.PVInfo
	if moved, err := r.hasMovedData(ctx, restore); err != nil {
		return false, failed, err
	} else if moved || len(left) > 0 {
		if former, err = r.formerVolumes(ctx, restore, log); err != nil {
			return false, failed, err
		}
	}
	claims, err := r.restoredClaims(ctx, restore, former, left)
	if err != nil {
		return false, failed, err
	}
	states := make([]binding, len(claims))
	for i := range claims {
		states[i], err = r.settle(ctx, &claims[i], former[client.ObjectKeyFromObject(&claims[i])])
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err): // which another attempt does not change
			failed.Add(claims[i].Namespace, err.Error())
		case err != nil:
			return false, failed, err
		}
	}
	overdue := r.Now().Sub(final.since) > r.ResourceTimeout || velerov1.CancelRequested(restore)
	ended = true
	made := map[types.NamespacedName][]int{} // claims by their snapshots
	for i := range claims {
		made[snapshotOf(&claims[i])] = append(made[snapshotOf(&claims[i])], i)
	}
	for _, vs := range left {
		waiting, kept := false, false
		for _, i := range made[vs] {
			claim := &claims[i]
			switch {
			case states[i] == waitsForPod:
				kept = true
				log.Info("the claim gets its volume when a pod uses it, its snapshot is kept for that", "claim", claim.Namespace+
					"/"+claim.Name, "volumeSnapshot", vs.Name)
			case states[i] == unbound && overdue:
				kept = true
				failed.Add(claim.Namespace, fmt.Sprintf("persistent volume claim %s/%s was not bound within %s; its events say "+
					"why, and VolumeSnapshot %s is kept for it",
					claim.Namespace, claim.Name, r.ResourceTimeout, vs.Name))
			case states[i] == unbound:
				waiting = true
				awaited = append(awaited, client.ObjectKeyFromObject(claim))
			}
		}
		switch {
		case waiting:
			ended = false
		case !kept:
			if err := r.VolumeSnapshots.DropRestored(ctx, vs); err != nil {
				return false, failed, err
			}
		}
	}
	if ended && r.VolumeSnapshots != nil {
		err = r.VolumeSnapshots.DropResults(ctx, restore.Namespace, restore.UID)
	}
	if ended && err == nil {
		final.settled, final.failed = true, failed
	}
	return ended && err == nil, failed, err
}

// hasMovedData reports whether the data of volumes was moved back for a restore.
func (r *Finalizer) hasMovedData(ctx context.Context, restore *velerov1.Restore) (bool, error) {
	for _, list := range []client.ObjectList{new(velerov1.PodVolumeRestoreList), new(velerov2alpha1.DataDownloadList)} {
		err := r.Live.List(ctx, list, client.InNamespace(restore.Namespace),
			client.MatchingLabels{velerov1.RestoreUIDLabel: string(restore.UID)}, client.Limit(1))
		if err != nil {
			return false, fmt.Errorf("list what has moved the data of volumes: %w", err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// snapshotOf returns the VolumeSnapshot of which the volume of a claim is made, zero if there is none.
func snapshotOf(claim *corev1.PersistentVolumeClaim) types.NamespacedName {
	source := claim.Spec.DataSource
	if source == nil || source.Kind != "VolumeSnapshot" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: claim.Namespace, Name: source.Name}
}

// restoredClaims returns the claims that the restore has created whose volumes have data in the backup or are made of
// snapshots.
func (r *Finalizer) restoredClaims(
	ctx context.Context, restore *velerov1.Restore, former map[types.NamespacedName]*volumes.PVInfo,
	snapshots []types.NamespacedName,
) (claims []corev1.PersistentVolumeClaim, err error) {
	namespaces, left := map[string]bool{}, map[types.NamespacedName]bool{}
	for key := range former {
		namespaces[key.Namespace] = true
	}
	for _, vs := range snapshots {
		namespaces[vs.Namespace], left[vs] = true, true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		var list corev1.PersistentVolumeClaimList
		err := r.Live.List(ctx, &list, client.InNamespace(namespace),
			client.MatchingLabels{velerov1.RestoreNameLabel: velerov1.ValidLabelValue(restore.Name)})
		if err != nil {
			return nil, fmt.Errorf("list the restored claims of namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			claim := &list.Items[i]
			if claim.CreationTimestamp.Before(&restore.CreationTimestamp) { // it was there, and was updated only
				continue
			}
			_, known := former[client.ObjectKeyFromObject(claim)]
			if known || left[snapshotOf(claim)] {
				claims = append(claims, *claim)
			}
		}
	}
	return claims, nil
}

// formerVolumes returns, by their restored claims, the volumes whose data the backup has in CSI snapshots, moved or
// not, or from file systems. A volume of a native snapshot comes back as the object that it was.
func (r *Finalizer) formerVolumes(
	ctx context.Context, restore *velerov1.Restore, log hclog.Logger,
) (map[types.NamespacedName]*volumes.PVInfo, error) {
	objects, err := r.files(ctx, restore, log)
	if err != nil || objects == nil {
		return nil, err
	}
	infos, err := store.DecodeList[[]volumes.VolumeInfo](ctx, objects, velerov1.DownloadTargetKindBackupVolumeInfos,
		restore.Spec.BackupName)
	if err != nil {
		return nil, err
	}
	former := map[types.NamespacedName]*volumes.PVInfo{}
	for i := range infos {
		info := &infos[i]
		if info.Skipped || info.PVCName == "" ||
			info.BackupMethod != volumes.CSI && info.BackupMethod != volumes.PodVolume {
			continue
		}
		former[types.NamespacedName{Namespace: restore.Spec.TargetNamespace(info.PVCNamespace), Name: info.PVCName}] = info.PV
	}
	return former, nil
}

// binding is how far a claim is.
type binding int

const (
	bound binding = iota
	unbound
	waitsForPod
)

// settle returns how far a claim is. The volume of a bound one becomes like the former one, except for the labels that
// say where the volume is.
func (r *Finalizer) settle(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, former *volumes.PVInfo,
) (binding, error) {
	if claim.Status.Phase != corev1.ClaimBound {
		if claim.Spec.StorageClassName == nil {
			return unbound, nil
		}
		var class storagev1.StorageClass
		err := r.Live.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, &class)
		if client.IgnoreNotFound(err) != nil {
			return unbound, fmt.Errorf("get storage class %s: %w", *claim.Spec.StorageClassName, err)
		}
		if class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
			return waitsForPod, nil
		}
		return unbound, nil
	}
	if former == nil {
		return bound, nil
	}
	var pv corev1.PersistentVolume
	if err := r.Live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, &pv); err != nil {
		return bound, client.IgnoreNotFound(err)
	}
	before := pv.DeepCopy()
	makeLike(&pv, former)
	if equality.Semantic.DeepEqual(before, &pv) {
		return bound, nil
	}
	if err := r.Patch(ctx, &pv, client.MergeFrom(before)); err != nil {
		return bound, fmt.Errorf("give persistent volume %s the labels and the reclaim policy of the one in the backup: %w",
			pv.Name, err)
	}
	return bound, nil
}

// makeLike gives a new volume the labels and the reclaim policy of the former one.
func makeLike(pv *corev1.PersistentVolume, former *volumes.PVInfo) {
	for key, value := range former.Labels {
		if !saysWhere(key) && !isOfProvisioner(key, pv) {
			metav1.SetMetaDataLabel(&pv.ObjectMeta, key, value)
		}
	}
	if former.ReclaimPolicy != "" {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(former.ReclaimPolicy)
	}
}

// saysWhere reports whether a label of a volume says where the volume is.
func saysWhere(label string) bool {
	domain, name, qualified := strings.Cut(label, "/")
	if !qualified {
		name = label
	}
	return strings.HasPrefix(domain, "topology.") || strings.HasPrefix(domain, "failure-domain.") ||
		label == corev1.LabelHostname || name == "zone" || name == "region"
}

// isOfProvisioner reports whether a label is one of those by which the driver of a new volume describes it.
func isOfProvisioner(label string, pv *corev1.PersistentVolume) bool {
	domain, _, qualified := strings.Cut(label, "/")
	driver := pv.Annotations[provisionedByAnnotation]
	if pv.Spec.CSI != nil {
		driver = pv.Spec.CSI.Driver
	}
	return qualified && driver != "" && (domain == driver || strings.HasSuffix(domain, "."+driver))
}

// storeErrors adds errors to the stored results. It can be repeated.
func (r *Finalizer) storeErrors(
	ctx context.Context, restore *velerov1.Restore, failed results.Result, log hclog.Logger,
) error {
	if failed.Count() == 0 {
		return nil
	}
	objects, err := r.files(ctx, restore, log)
	if err != nil || objects == nil {
		return err
	}
	return addErrors(ctx, objects, restore.Name, failed, log)
}
