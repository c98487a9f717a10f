package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	"github.com/cleat-dev/cleat/server/internal/kube/orders"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

// provisionedByAnnotation of a volume names the provisioner that has made it.
const provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"

// RestoreEnd is a restore whose run has ended.
type RestoreEnd struct {
	Restore *velerov1.Restore
	// Open opens the bucket with the backup. It returns nil if that cannot be found any more.
	Open func(context.Context) (*store.Store, error)
	// Patience is how long claims that are not bound are waited for. Overdue says that it is over.
	Patience time.Duration
	Overdue  bool
}

// RestoredState is how far the volumes of a restore are.
type RestoredState struct {
	Awaited []types.NamespacedName // claims
	Failed  results.Result
	// Lost has as warnings what data movers could not keep of the volumes, once it has Ended.
	Lost  results.Result
	Ended bool
}

// SettleRestored looks whether the claims are bound whose volumes are made of CSI snapshots, and gives each volume that
// was made for a claim with data what the one in the backup had (settleClaim). It deletes the restored snapshots from
// the cluster, because their claims do not need them any more; the storage system keeps its own. A claim that waits for
// a pod is not waited for, and keeps its snapshot. SettleRestored is to be repeated until it reports that it has ended.
func (h *Hub) SettleRestored(ctx context.Context, of RestoreEnd, log hclog.Logger) (state RestoredState, err error) {
	var left []types.NamespacedName // snapshots
	if h.CSI != nil {
		if left, err = h.CSI.Restored(ctx, of.Restore.UID); err != nil {
			return state, err
		}
	}
	var former map[types.NamespacedName]*PVInfo
	if moved, err := h.hasMovedData(ctx, of.Restore); err != nil {
		return state, err
	} else if moved || len(left) > 0 {
		if former, err = formerVolumes(ctx, of); err != nil {
			return state, err
		}
	}
	claims, err := h.restoredClaims(ctx, of.Restore, former, left)
	if err != nil {
		return state, err
	}
	made := map[types.NamespacedName][]restoredClaim{} // by their snapshots
	for i := range claims {
		claim := restoredClaim{PersistentVolumeClaim: &claims[i]}
		claim.binding, err = h.settleClaim(ctx, claim.PersistentVolumeClaim, former[client.ObjectKeyFromObject(claim)])
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err): // which another attempt does not change
			state.Failed.Add(claim.Namespace, err.Error())
		case err != nil:
			return state, err
		}
		vs := snapshotOf(claim.PersistentVolumeClaim)
		made[vs] = append(made[vs], claim)
	}
	state.Ended = true
	for _, vs := range left {
		if needed := state.settle(vs, made[vs], of, log); needed {
			continue
		}
		if err := h.CSI.DropRestored(ctx, vs); err != nil {
			return state, err
		}
	}
	if state.Ended && h.CSI != nil {
		err = h.CSI.DropResults(ctx, of.Restore.Namespace, of.Restore.UID)
	}
	if state.Ended && err == nil {
		state.Lost, err = h.lostRestored(ctx, of.Restore, log)
	}
	return state, err
}

// restoredClaim is a claim that a restore has created, and how far it is.
type restoredClaim struct {
	*corev1.PersistentVolumeClaim
	binding binding
}

// settle adds the claims that are made of a snapshot. It reports whether one of them still needs the snapshot.
func (s *RestoredState) settle(vs types.NamespacedName, claims []restoredClaim, of RestoreEnd, log hclog.Logger) bool {
	needed := false
	for _, claim := range claims {
		if claim.binding == bound {
			continue
		}
		needed = true
		switch {
		case claim.binding == waitsForPod:
			log.Info("the claim gets its volume when a pod uses it, its snapshot is kept for that", "claim", claim.Namespace+
				"/"+claim.Name, "volumeSnapshot", vs.Name)
		case of.Overdue:
			s.Failed.Add(claim.Namespace, fmt.Sprintf("persistent volume claim %s/%s was not bound within %s; its events say "+
				"why, and VolumeSnapshot %s is kept for it", claim.Namespace, claim.Name, of.Patience, vs.Name))
		default:
			s.Ended, s.Awaited = false, append(s.Awaited, client.ObjectKeyFromObject(claim))
		}
	}
	return needed
}

// hasMovedData reports whether the data of volumes was moved back for a restore.
func (h *Hub) hasMovedData(ctx context.Context, restore *velerov1.Restore) (bool, error) {
	for _, list := range []client.ObjectList{new(velerov1.PodVolumeRestoreList), new(velerov2alpha1.DataDownloadList)} {
		err := h.Live.List(ctx, list, client.InNamespace(restore.Namespace),
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
func (h *Hub) restoredClaims(
	ctx context.Context, restore *velerov1.Restore, former map[types.NamespacedName]*PVInfo,
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
		err := h.Live.List(ctx, &list, client.InNamespace(namespace),
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
func formerVolumes(ctx context.Context, of RestoreEnd) (map[types.NamespacedName]*PVInfo, error) {
	objects, err := of.Open(ctx)
	if err != nil || objects == nil {
		return nil, err
	}
	infos, err := store.DecodeList[[]VolumeInfo](ctx, objects, velerov1.DownloadTargetKindBackupVolumeInfos,
		of.Restore.Spec.BackupName)
	if err != nil {
		return nil, err
	}
	former := map[types.NamespacedName]*PVInfo{}
	for i := range infos {
		info := &infos[i]
		if info.Skipped || info.PVCName == "" ||
			info.BackupMethod != CSI && info.BackupMethod != PodVolume {
			continue
		}
		namespace := of.Restore.Spec.TargetNamespace(info.PVCNamespace)
		former[types.NamespacedName{Namespace: namespace, Name: info.PVCName}] = info.PV
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

// settleClaim returns how far a claim is. The volume of a bound one becomes like the former one, except for the labels
// that say where the volume is.
func (h *Hub) settleClaim(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, former *PVInfo,
) (binding, error) {
	if claim.Status.Phase != corev1.ClaimBound {
		if claim.Spec.StorageClassName == nil {
			return unbound, nil
		}
		var class storagev1.StorageClass
		err := h.Live.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, &class)
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
	if err := h.Live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, &pv); err != nil {
		return bound, client.IgnoreNotFound(err)
	}
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != claim.UID { // who creates a claim can name any volume
		return bound, nil
	}
	before := pv.DeepCopy()
	makeLike(&pv, former)
	if equality.Semantic.DeepEqual(before, &pv) {
		return bound, nil
	}
	err := h.Client.Patch(ctx, &pv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return bound, fmt.Errorf("give persistent volume %s the labels and the reclaim policy of the one in the backup: %w",
			pv.Name, err)
	}
	return bound, nil
}

// makeLike gives a new volume the labels and the reclaim policy of the former one.
func makeLike(pv *corev1.PersistentVolume, former *PVInfo) {
	for key, value := range former.Labels {
		if !saysWhere(key) && !isOfProvisioner(key, pv) && !orders.Is(key) {
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
