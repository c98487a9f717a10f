package restore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/volume"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// Annotations by which controllers mark volumes and claims as bound.
const (
	bindCompletedAnnotation     = "pv.kubernetes.io/bind-completed"
	boundByControllerAnnotation = "pv.kubernetes.io/bound-by-controller"
)

// reclaimDelete is the reclaim policy of volumes whose data is deleted with their claim.
const reclaimDelete = "Delete"

// dataOf returns the volumes with data in the backup that belong to the item: the volume itself, the volume of a
// claim, or the volumes of a pod.
func (r *itemRun) dataOf() []*volume.Volume {
	switch r.entry.GroupResource {
	case volumesResource:
		return r.engine.volumes.OfPV(r.entry.Name)
	case claimsResource:
		return r.engine.volumes.OfClaim(r.entry.Namespace, r.entry.Name, r.volumeName)
	case podsResource:
		return r.engine.volumes.OfPod(r.entry.Namespace, r.entry.Name)
	default:
		return nil
	}
}

// reportLostData records an error, once, for each volume of the item whose data is in the backup and cannot be
// restored, unless the restore excludes data from snapshots. If the volume has a snapshot, the errors are recorded
// with the persistent volume.
func (r *itemRun) reportLostData() error {
	unwanted := r.engine.restore.Spec.RestorePVs != nil && !*r.engine.restore.Spec.RestorePVs
	for _, v := range r.dataOf() {
		lost := ""
		if r.engine.actions.Has(v.Restorer) {
			if lost = r.notMoved(v); lost == "" {
				continue
			}
		}
		if v.Snapshot != nil || unwanted && v.Method != volumes.PodVolume || !r.engine.firstReport("volume "+v.String()) {
			continue
		}
		why := fmt.Sprintf("the data is in %s, and restoring it is not supported yet", v.Where)
		switch {
		case lost != "":
			why = lost
		case v.Failed:
			why = fmt.Sprintf("the backup failed to take it (%s)", v.Where)
		case v.OfVelero:
			why = fmt.Sprintf("the data is in %s, which only Velero can read: restore the volume with Velero", v.Where)
		case v.Restorer != "":
			why = fmt.Sprintf("the data is in %s, and the server only restores it with --features=EnableCSI", v.Where)
		}
		if err := r.fail(fmt.Errorf("the data of %s is not restored, it stays empty: %s", v, why)); err != nil {
			return err
		}
	}
	return nil
}

// isOfPod reports whether a volume has data that is restored in a pod.
func isOfPod(v *volume.Volume) bool { return v.Restorer == framework.RolePodVolumeRestores && !v.Empty }

// concerns reports whether an action is called for the item. The action for volumes of pods is called only if the
// backup has such data, or if an earlier restore has left its init container in the pod.
func (r *itemRun) concerns(action string) bool {
	if r.entry.GroupResource != podsResource || !r.engine.roles.Has(action, framework.RolePodVolumeRestores) {
		return true
	}
	return slices.ContainsFunc(r.dataOf(), isOfPod) || len(r.sharedVolumes()) > 0 ||
		bytes.Contains(r.raw, []byte(`"restore-wait"`)) || bytes.Contains(r.raw, []byte(`"restic-wait"`))
}

// restoreFor returns the Restore for an action. For an action that moves the data of volumes back, it includes the
// snapshots that the backup has recorded, because the contents of objects in the cluster cannot be trusted.
func (r *itemRun) restoreFor(action string) ([]byte, error) {
	snapshots := map[string]string{}
	for _, v := range r.dataOf() {
		switch {
		case v.Restorer == "" || !r.engine.roles.Has(action, v.Restorer):
		case v.Restorer == framework.RolePodVolumeRestores && r.entry.GroupResource == podsResource && !v.Empty:
			snapshots[v.Name] = v.SnapshotID
		case v.Restorer == framework.RoleClaimRestores && r.entry.GroupResource == claimsResource && v.Moved:
			snapshots[r.entry.Name] = v.SnapshotID
		}
	}
	restore, err := r.engine.restoreJSON, error(nil)
	add := func(annotation string, values map[string]string) {
		if len(values) == 0 || err != nil {
			return
		}
		var text []byte
		if text, err = json.Marshal(values); err == nil {
			restore, err = item.WithAnnotation(restore, annotation, string(text))
		}
	}
	add(velerov1.StoredVolumesAnnotation, snapshots)
	if r.engine.roles.Has(action, framework.RolePodVolumeRestores) {
		add(velerov1.SharedVolumesAnnotation, r.sharedVolumes())
	}
	return restore, err
}

// sharedVolumes returns the volumes of a pod whose claims have data that the restore restores with another pod, by
// their names, with the names of these pods.
func (r *itemRun) sharedVolumes() map[string]string {
	if r.entry.GroupResource != podsResource || !bytes.Contains(r.raw, []byte(`"persistentVolumeClaim"`)) {
		return nil
	}
	var pod corev1.Pod
	if item.Unmarshal(r.raw, &pod) != nil {
		return nil // the action says so
	}
	shared := map[string]string{}
	for i := range pod.Spec.Volumes {
		claim := podclaims.Name(pod.Name, &pod.Spec.Volumes[i])
		if claim == "" {
			continue
		}
		for _, v := range r.engine.volumes.OfClaim(r.entry.Namespace, claim, "") {
			if isOfPod(v) && v.PodNamespace == r.entry.Namespace && v.Pod != r.entry.Name &&
				r.engine.restoresPod(v.PodNamespace, v.Pod) {
				shared[pod.Spec.Volumes[i].Name] = v.Pod
			}
		}
	}
	return shared
}

// restoresPod reports whether the backup has a pod, and the filters of the restore include it.
func (e *engine) restoresPod(namespace, name string) bool {
	entry, known := e.archive.Find(podsResource, namespace, name)
	if !known {
		return false
	}
	raw, err := e.archive.Read(entry)
	var pod corev1.Pod
	if err != nil || item.Unmarshal(raw, &pod) != nil {
		return false
	}
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return !ended && e.selection.Includes(entry, "Pod", pod.Labels)
}

// reportKeptData warns, once, of each volume of an item that exists in the cluster whose data in the backup is not
// restored for that reason. former is set if a former attempt of this restore has made the item.
func (r *itemRun) reportKeptData(former bool) {
	unwanted := r.engine.restore.Spec.RestorePVs != nil && !*r.engine.restore.Spec.RestorePVs
	for _, v := range r.dataOf() {
		why := r.id + " exists in the cluster; delete it and restore it again, or restore it into another namespace"
		switch ofPod := v.Method == volumes.PodVolume; {
		case former, v.Failed, v.Empty, unwanted && !ofPod:
			continue
		case r.entry.GroupResource == podsResource && r.moving != "", r.entry.GroupResource == claimsResource && r.operates,
			r.entry.GroupResource == volumesResource && (v.Snapshot == nil || r.made != nil):
			continue
		case r.entry.GroupResource == claimsResource && v.Snapshot != nil: // the persistent volume reports it
			continue
		case r.entry.GroupResource == claimsResource && ofPod:
			if why = r.notMoved(v); why == "" { // the pod reports it
				continue
			}
		}
		if r.engine.firstReport("volume " + v.String()) {
			r.caution(fmt.Errorf("the data of %s is not restored: %s", v, why))
		}
	}
}

// reportMixedData warns of each claim that existed before the restore, and into which it writes the data of a pod that
// it has created.
func (r *itemRun) reportMixedData() {
	if r.entry.GroupResource != podsResource {
		return
	}
	for _, v := range r.dataOf() {
		claim := archive.Entry{GroupResource: claimsResource, Namespace: v.ClaimNamespace, Name: v.Claim}
		key := itemKey{"v1/PersistentVolumeClaim", r.namespace, v.Claim}
		if v.Claim == "" || !isOfPod(v) || !r.engine.tracker.existed(key, claim) {
			continue
		}
		r.caution(fmt.Errorf("the data of %s is written into the volume that it has in the cluster, whose other files stay",
			v))
	}
}

// notMoved returns the reason why the existing action does not restore the data of a volume of a pod, or "" if it
// does.
func (r *itemRun) notMoved(v *volume.Volume) string {
	if v.Method != volumes.PodVolume || v.Empty {
		return ""
	}
	if r.entry.GroupResource == podsResource {
		if r.moving != "" || r.engine.dry != nil {
			return ""
		}
		return fmt.Sprintf("the data is in %s, and the cluster has no PodVolumeBackup with that snapshot any more; delete "+
			"the Backup object, without its data, so that the server brings both back from the bucket", v.Where)
	}
	if v.Pod == "" || r.engine.restoresPod(v.PodNamespace, v.Pod) {
		return ""
	}
	return fmt.Sprintf("the data is in %s, which is restored with pod %s/%s only, and the restore does not have that pod",
		v.Where, v.PodNamespace, v.Pod)
}

// isOfFailed reports whether an action would restore data for the item that its backup failed to store.
func (r *itemRun) isOfFailed(action string) bool {
	if r.entry.GroupResource != claimsResource || !r.engine.roles.Has(action, framework.RoleClaimRestores) {
		return false
	}
	data := r.engine.volumes.OfClaim(r.entry.Namespace, r.entry.Name, "")
	return len(data) > 0 && data[0].Failed
}

// leaveOutUpload leaves out a DataUpload, which would move data again. The data that it has moved is lost; volumeinfo
// usually reports that for the claim.
func (r *itemRun) leaveOutUpload() error {
	var upload struct {
		Spec struct {
			SourceNamespace string `json:"sourceNamespace"`
			SourcePVC       string `json:"sourcePVC"`
		} `json:"spec"`
	}
	if item.Unmarshal(r.raw, &upload) == nil {
		if len(r.engine.volumes.OfClaim(upload.Spec.SourceNamespace, upload.Spec.SourcePVC, "")) > 0 {
			r.leave("it would move the data of a volume again")
			return nil
		}
	}
	return r.fail(fmt.Errorf("the data of volumes is not restored yet: %s is left out", r.id))
}

// prepareVolume prepares a persistent volume for a new claim, as Velero does. skip is set if it is not restored: its
// data was deleted with its claim or is elsewhere in the backup, and the claim gets a new volume.
func (r *itemRun) prepareVolume(ctx context.Context) (skip bool, err error) {
	spec, err := object.Split(r.obj.Top.Get("spec"))
	if err != nil {
		return false, fmt.Errorf("its spec: %w", err)
	}
	if data := r.dataOf(); len(data) > 0 && data[0].Snapshot != nil {
		mapped := r.unbind(spec)
		if r.keepsDisk(data) {
			return false, nil
		}
		if r.engine.enclose != nil && !mapped { // no disk is made that nobody may have
			r.engine.addProvisioned(r.obj.Name)
			r.leave("not rehearsed: its claim is outside of the rehearsal")
			return true, nil
		}
		return false, r.restoreSnapshot(ctx, data[0].Snapshot, mapped)
	} else if len(data) > 0 && !r.keepsDisk(data) {
		r.engine.addProvisioned(r.obj.Name)
		if r.claimIsRestored(spec) {
			return true, nil // the claim reports the data
		}
		return true, r.reportLostData()
	}
	if string(spec.Get("persistentVolumeReclaimPolicy")) == string(object.Quote(reclaimDelete)) &&
		!r.isStillBound(ctx, spec) {
		r.engine.addProvisioned(r.obj.Name)
		r.warn(fmt.Errorf("the data of volumes is not restored yet: %s has reclaim policy Delete, so it is not restored "+
			"and its claim gets a new, empty volume", r.id))
		return true, nil
	}
	r.unbind(spec)
	return false, nil
}

// isStillBound reports whether the volume exists in the cluster and is bound to the same claim as in the backup.
func (r *itemRun) isStillBound(ctx context.Context, spec object.Fields) bool {
	raw, err := r.read(ctx, target{gvr: volumesResource.WithVersion("v1")})
	if err != nil || raw == nil {
		return false
	}
	var live struct {
		Spec   struct{ ClaimRef corev1.ObjectReference }
		Status struct{ Phase corev1.PersistentVolumePhase }
	}
	var claim corev1.ObjectReference
	if json.Unmarshal(raw, &live) != nil || item.Unmarshal(spec.Get("claimRef"), &claim) != nil {
		return false
	}
	ref := live.Spec.ClaimRef
	return live.Status.Phase == corev1.VolumeBound && ref.Namespace == r.engine.selection.Target(claim.Namespace) &&
		ref.Name == claim.Name
}

// unbind prepares the volume for being bound to its restored claim. It reports whether the claim is restored into
// another namespace.
func (r *itemRun) unbind(spec object.Fields) (mapped bool) {
	if claim, err := object.Split(spec.Get("claimRef")); err == nil && claim != nil {
		claim.Remove("uid")
		claim.Remove("resourceVersion")
		var namespace string
		if json.Unmarshal(claim.Get("namespace"), &namespace) == nil {
			target := r.engine.selection.Target(namespace)
			mapped = target != namespace
			claim.Set("namespace", object.Quote(target))
		}
		spec.Set("claimRef", claim.JSON())
		r.obj.Top.Set("spec", spec.JSON())
	}
	r.obj.RemoveAnnotations(bindCompletedAnnotation, boundByControllerAnnotation)
	return mapped
}

// keepsDisk reports whether a volume is restored unchanged although the backup has a snapshot of it: the restore
// excludes data from snapshots.
func (r *itemRun) keepsDisk(data []*volume.Volume) bool {
	unwanted := r.engine.restore.Spec.RestorePVs != nil && !*r.engine.restore.Spec.RestorePVs
	return unwanted && data[0].Method == volumes.Native
}

// claimIsRestored reports whether the restore includes the claim of a volume.
func (r *itemRun) claimIsRestored(spec object.Fields) bool {
	var claim corev1.ObjectReference
	if item.Unmarshal(spec.Get("claimRef"), &claim) != nil {
		return false
	}
	entry, ok := r.engine.archive.Find(claimsResource, claim.Namespace, claim.Name)
	return ok && r.engine.selection.Allows(entry)
}

// prepareClaim prepares a claim to be bound again.
func (r *itemRun) prepareClaim() error {
	spec, err := object.Split(r.obj.Top.Get("spec"))
	if err != nil {
		return fmt.Errorf("its spec: %w", err)
	}
	var name string
	if raw := spec.Get("volumeName"); raw == nil || json.Unmarshal(raw, &name) != nil || name == "" {
		return nil
	}
	r.volumeName = name
	r.obj.RemoveAnnotations(bindCompletedAnnotation, boundByControllerAnnotation)
	data := r.dataOf()
	switch lost := len(data) > 0 && data[0].Snapshot == nil && !r.keepsDisk(data); {
	case r.engine.isProvisioned(name) || lost:
		spec.Remove("volumeName")
	case r.engine.renamed(name) != name:
		spec.Set("volumeName", object.Quote(r.engine.renamed(name)))
	default:
		return nil
	}
	r.obj.Top.Set("spec", spec.JSON())
	return nil
}
