package restore

import (
	"encoding/json"
	"fmt"

	"github.com/cleat-dev/cleat/server/restore/object"
	"github.com/cleat-dev/cleat/server/restore/volume"
)

// Annotations by which controllers mark volumes and claims as bound.
const (
	bindCompletedAnnotation     = "pv.kubernetes.io/bind-completed"
	boundByControllerAnnotation = "pv.kubernetes.io/bound-by-controller"
)

// reclaimDelete is the reclaim policy of volumes whose data is deleted with their claim.
const reclaimDelete = "Delete"

// warnAboutHooks warns that the hook in the annotations of a pod is not run.
func (r *itemRun) warnAboutHooks() {
	if r.obj.Annotations["post.hook.restore.velero.io/command"] != "" {
		r.warn(fmt.Errorf("restore hooks that run commands are not supported yet: the one in the annotations of %s is not run", r.id))
	}
}

// dataOf returns the volumes with data in the backup that concern the item: the volume itself, that of a claim, those of a
// pod.
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

// reportLostData records an error for each volume of the item whose data is in the backup and cannot be restored, once,
// unless the restore does not want data from snapshots.
func (r *itemRun) reportLostData() error {
	unwanted := r.engine.restore.Spec.RestorePVs != nil && !*r.engine.restore.Spec.RestorePVs
	for _, v := range r.dataOf() {
		if unwanted && v.Method != volume.PodVolumeBackup || !r.engine.firstReport("volume "+v.String()) {
			continue
		}
		err := r.fail(fmt.Errorf("the data of %s is not restored, it stays empty: the data is in %s, and restoring it is not supported yet", v, v.Where))
		if err != nil {
			return err
		}
	}
	return nil
}

// leaveOutUpload leaves out a DataUpload, which would move data again. The data that it has moved is lost; volumeinfo
// usually says so for the claim.
func (r *itemRun) leaveOutUpload() error {
	var upload struct {
		Spec struct {
			SourceNamespace string `json:"sourceNamespace"`
			SourcePVC       string `json:"sourcePVC"`
		} `json:"spec"`
	}
	if json.Unmarshal(r.raw, &upload) == nil {
		if len(r.engine.volumes.OfClaim(upload.Spec.SourceNamespace, upload.Spec.SourcePVC, "")) > 0 {
			r.log.Info("not restored: it would move the data of a volume again")
			return nil
		}
	}
	return r.fail(fmt.Errorf("the data of volumes is not restored yet: %s is left out", r.id))
}

// prepareVolume prepares a persistent volume for a new claim, as Velero does. skip means that it is not restored: its data
// was deleted with its claim or is somewhere else in the backup, and the claim gets a new volume.
func (r *itemRun) prepareVolume() (skip bool, err error) {
	spec, err := object.Split(r.obj.Top.Get("spec"))
	if err != nil {
		return false, fmt.Errorf("its spec: %w", err)
	}
	if data := r.dataOf(); len(data) > 0 && !r.keepsDisk(data) {
		r.engine.addProvisioned(r.obj.Name)
		if r.claimIsRestored(spec) {
			return true, nil // the claim reports the data
		}
		return true, r.reportLostData()
	}
	if string(spec.Get("persistentVolumeReclaimPolicy")) == string(object.Quote(reclaimDelete)) {
		r.engine.addProvisioned(r.obj.Name)
		r.warn(fmt.Errorf("the data of volumes is not restored yet: %s has reclaim policy Delete, so it is not restored and its claim gets a new, empty volume", r.id))
		return true, nil
	}
	if claim, err := object.Split(spec.Get("claimRef")); err == nil && claim != nil {
		claim.Remove("uid")
		claim.Remove("resourceVersion")
		var namespace string
		if json.Unmarshal(claim.Get("namespace"), &namespace) == nil {
			claim.Set("namespace", object.Quote(r.engine.selection.Target(namespace)))
		}
		spec.Set("claimRef", claim.JSON())
		r.obj.Top.Set("spec", spec.JSON())
	}
	r.obj.RemoveAnnotations(bindCompletedAnnotation, boundByControllerAnnotation)
	return false, nil
}

// keepsDisk reports whether a volume is restored as it was although the backup has a snapshot of it: the restore does not
// want data from snapshots.
func (r *itemRun) keepsDisk(data []*volume.Volume) bool {
	unwanted := r.engine.restore.Spec.RestorePVs != nil && !*r.engine.restore.Spec.RestorePVs
	return unwanted && data[0].Method == volume.NativeSnapshot
}

// claimIsRestored reports whether the restore has the claim that a volume is bound to.
func (r *itemRun) claimIsRestored(spec object.Fields) bool {
	var claim struct{ Namespace, Name string }
	if json.Unmarshal(spec.Get("claimRef"), &claim) != nil {
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
	if r.engine.isProvisioned(name) || len(data) > 0 && !r.keepsDisk(data) {
		spec.Remove("volumeName")
		r.obj.Top.Set("spec", spec.JSON())
	}
	return nil
}
