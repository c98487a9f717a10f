package restores

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/server/snapshot"
	"github.com/cleat-dev/cleat/server/store"
)

// bindVolumes waits until the claims are bound whose volumes are made of CSI snapshots. It gives each new volume the labels and the reclaim
// policy that the old one had, and deletes the snapshot from the cluster, because the claim does not need it any more; the storage
// system keeps its own. A claim that waits for a pod is not waited for, and keeps its snapshot. bindVolumes can be repeated until
// it reports that it has ended, with the errors.
func (r *Finalizer) bindVolumes(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) (ended bool, failed results.Result, err error) {
	if r.VolumeSnapshots == nil {
		return true, failed, nil
	}
	final := r.waits.of(restore.UID, log, r.Now())
	var awaited []types.NamespacedName // claims
	defer func() {
		if err == nil {
			final.forClaims(awaited)
		}
	}()
	if err := r.endMovements(ctx, restore, log); err != nil {
		return false, failed, err
	}
	left, err := r.VolumeSnapshots.Restored(ctx, restore.UID)
	if err != nil || len(left) == 0 {
		return err == nil, failed, err
	}
	claims, err := r.claimsOf(ctx, restore, left)
	if err != nil {
		return false, failed, err
	}
	former, err := r.formerVolumes(ctx, restore, log)
	if err != nil {
		return false, failed, err
	}
	overdue := r.Now().Sub(final.since) > r.ResourceTimeout || velerov1.CancelRequested(restore)
	ended = true
	for _, vs := range left {
		waiting, kept := false, false
		for i := range claims[vs] {
			claim := &claims[vs][i]
			state, err := r.bind(ctx, claim, former[client.ObjectKeyFromObject(claim)])
			switch {
			case err != nil:
				return false, failed, err
			case state == waitsForPod:
				kept = true
				log.Info("the claim gets its volume when a pod uses it, its snapshot is kept for that", "claim", claim.Namespace+"/"+claim.Name, "volumeSnapshot", vs.Name)
			case state == unbound && overdue:
				kept = true
				failed.Add(claim.Namespace, fmt.Sprintf("persistent volume claim %s/%s was not bound within %s; its events say why, and VolumeSnapshot %s is kept for it",
					claim.Namespace, claim.Name, r.ResourceTimeout, vs.Name))
			case state == unbound:
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
	return ended, failed, nil
}

// endMovements gives the volumes whose data was moved back the labels and the reclaim policy that they had, and deletes the notes of what
// was to be moved. It can be repeated.
func (r *Finalizer) endMovements(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) error {
	var list velerov2alpha1.DataDownloadList
	if err := r.Live.List(ctx, &list, client.InNamespace(restore.Namespace), client.MatchingLabels{velerov1.RestoreUIDLabel: string(restore.UID)}); err != nil {
		return fmt.Errorf("list the DataDownloads: %w", err)
	}
	if len(list.Items) > 0 {
		former, err := r.formerVolumes(ctx, restore, log)
		if err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Status.Phase != velerov1.LoadPhaseCompleted {
				continue
			}
			to := client.ObjectKey{Namespace: list.Items[i].Spec.TargetVolume.Namespace, Name: list.Items[i].Spec.TargetVolume.PVC}
			var claim corev1.PersistentVolumeClaim
			err := r.Live.Get(ctx, to, &claim)
			if err == nil {
				_, err = r.bind(ctx, &claim, former[to])
			}
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("end the restore of the volume of claim %s: %w", to, err)
			}
		}
	}
	return r.VolumeSnapshots.DropResults(ctx, restore.Namespace, restore.UID)
}

// claimsOf returns the claims of a restore by the snapshot that their volumes are made of.
func (r *Finalizer) claimsOf(ctx context.Context, restore *velerov1.Restore, snapshots []types.NamespacedName) (map[types.NamespacedName][]corev1.PersistentVolumeClaim, error) {
	claims, seen := map[types.NamespacedName][]corev1.PersistentVolumeClaim{}, map[string]bool{}
	for _, vs := range snapshots {
		if seen[vs.Namespace] {
			continue
		}
		seen[vs.Namespace] = true
		var list corev1.PersistentVolumeClaimList
		err := r.Live.List(ctx, &list, client.InNamespace(vs.Namespace), client.MatchingLabels{velerov1.RestoreNameLabel: velerov1.ValidLabelValue(restore.Name)})
		if err != nil {
			return nil, fmt.Errorf("list the restored claims of namespace %s: %w", vs.Namespace, err)
		}
		for i := range list.Items {
			if source := list.Items[i].Spec.DataSource; source != nil && source.Kind == "VolumeSnapshot" {
				of := types.NamespacedName{Namespace: vs.Namespace, Name: source.Name}
				claims[of] = append(claims[of], list.Items[i])
			}
		}
	}
	return claims, nil
}

// formerVolumes returns what the backup knows of its volumes with CSI snapshots, by their restored claims.
func (r *Finalizer) formerVolumes(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) (map[types.NamespacedName]*snapshot.PVInfo, error) {
	objects, err := r.files(ctx, restore, log)
	if err != nil || objects == nil {
		return nil, err
	}
	infos, err := store.DecodeJSON[[]snapshot.VolumeInfo](ctx, objects, velerov1.DownloadTargetKindBackupVolumeInfos, restore.Spec.BackupName)
	if err != nil {
		return nil, err
	}
	former := map[types.NamespacedName]*snapshot.PVInfo{}
	for i := range infos {
		info := &infos[i]
		if info.BackupMethod != snapshot.CSI {
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

// bind returns how far a claim is. The volume of a bound one gets what it had before.
func (r *Finalizer) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim, former *snapshot.PVInfo) (binding, error) {
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
	policy := corev1.PersistentVolumeReclaimPolicy(former.ReclaimPolicy)
	same := policy == "" || pv.Spec.PersistentVolumeReclaimPolicy == policy
	for key, value := range former.Labels {
		same = same && pv.Labels[key] == value
	}
	if same {
		return bound, nil
	}
	patch := map[string]any{"metadata": map[string]any{"labels": maps.Clone(former.Labels)}}
	if policy != "" {
		patch["spec"] = map[string]any{"persistentVolumeReclaimPolicy": policy}
	}
	text, err := json.Marshal(patch)
	if err == nil {
		err = r.Patch(ctx, &pv, client.RawPatch(types.MergePatchType, text))
	}
	if err != nil {
		return bound, fmt.Errorf("give persistent volume %s the labels and the reclaim policy of the one in the backup: %w", pv.Name, err)
	}
	return bound, nil
}

// storeErrors adds errors to the stored results. It can be repeated.
func (r *Finalizer) storeErrors(ctx context.Context, restore *velerov1.Restore, failed results.Result, log hclog.Logger) error {
	if failed.Count() == 0 {
		return nil
	}
	objects, err := r.files(ctx, restore, log)
	if err != nil || objects == nil {
		return err
	}
	return addErrors(ctx, objects, restore.Name, failed, log)
}
