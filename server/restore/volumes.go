package restore

import (
	"encoding/json"
	"fmt"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/restore/object"
)

// Annotations by which controllers mark volumes and claims as bound.
const (
	bindCompletedAnnotation     = "pv.kubernetes.io/bind-completed"
	boundByControllerAnnotation = "pv.kubernetes.io/bound-by-controller"
)

// reclaimDelete is the reclaim policy of volumes whose data is deleted with their claim.
const reclaimDelete = "Delete"

// unsupported returns warnings about what a restore requests and the server does not support.
func unsupported(spec *velerov1.RestoreSpec) []string {
	var warnings []string
	warn := func(requested bool, format string, args ...any) {
		if requested {
			warnings = append(warnings, fmt.Sprintf(format, args...))
		}
	}
	warn(len(spec.Hooks.Resources) > 0, "restore hooks are not supported yet: the %d of spec.hooks are not run", len(spec.Hooks.Resources))
	warn(spec.RestorePVs != nil && *spec.RestorePVs, "the data of volumes is not restored yet: spec.restorePVs has no effect")
	warn(spec.UploaderConfig != nil, "the data of volumes is not restored yet: spec.uploaderConfig has no effect")
	return warnings
}

// warnAboutHooks warns that the hooks of a pod are not run.
func (r *itemRun) warnAboutHooks() {
	for key := range r.obj.Annotations {
		for _, prefix := range []string{"post.hook.restore.velero.io/", "init.hook.restore.velero.io/"} {
			if strings.HasPrefix(key, prefix) {
				r.warn(fmt.Errorf("restore hooks are not supported yet: those in the annotations of %s are not run", r.id))
				return
			}
		}
	}
}

// prepareVolume prepares a persistent volume for a new claim. skip means that it is not restored because its data
// was deleted with its claim, which gets a new volume.
func (r *itemRun) prepareVolume() (skip bool, err error) {
	spec, err := object.Split(r.obj.Top.Get("spec"))
	if err != nil {
		return false, fmt.Errorf("its spec: %w", err)
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

// prepareClaim prepares a claim to be bound again.
func (r *itemRun) prepareClaim() error {
	spec, err := object.Split(r.obj.Top.Get("spec"))
	if err != nil {
		return fmt.Errorf("its spec: %w", err)
	}
	var volume string
	if raw := spec.Get("volumeName"); raw == nil || json.Unmarshal(raw, &volume) != nil || volume == "" {
		return nil
	}
	r.obj.RemoveAnnotations(bindCompletedAnnotation, boundByControllerAnnotation)
	if r.engine.isProvisioned(volume) {
		spec.Remove("volumeName")
		r.obj.Top.Set("spec", spec.JSON())
	}
	return nil
}
