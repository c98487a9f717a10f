package restore

import (
	"encoding/json"
	"fmt"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Annotations by which the controllers of volumes mark what they bound to each other.
const (
	bindCompletedAnnotation     = "pv.kubernetes.io/bind-completed"
	boundByControllerAnnotation = "pv.kubernetes.io/bound-by-controller"
)

// reclaimDelete is the reclaim policy of volumes whose data is gone with their claim.
const reclaimDelete = "Delete"

// Prefixes of the annotations of pods that ask for hooks.
var hookAnnotations = []string{"post.hook.restore.velero.io/", "init.hook.restore.velero.io/"}

// unsupported are warnings about what a restore asks for and does not get.
func unsupported(spec *velerov1.RestoreSpec) []string {
	var warnings []string
	warn := func(asked bool, format string, args ...any) {
		if asked {
			warnings = append(warnings, fmt.Sprintf(format, args...))
		}
	}
	warn(len(spec.Hooks.Resources) > 0, "restore hooks are not supported yet: the %d of spec.hooks are not run", len(spec.Hooks.Resources))
	warn(spec.RestorePVs != nil && *spec.RestorePVs, "the data of volumes is not restored yet: spec.restorePVs has no effect")
	warn(spec.UploaderConfig != nil, "the data of volumes is not restored yet: spec.uploaderConfig has no effect")
	return warnings
}

// warnAboutHooks says of a pod that its hooks are not run.
func (r *itemRun) warnAboutHooks() {
	for key := range r.obj.Annotations {
		for _, prefix := range hookAnnotations {
			if strings.HasPrefix(key, prefix) {
				r.warn(fmt.Errorf("restore hooks are not supported yet: those in the annotations of %s are not run", r.id))
				return
			}
		}
	}
}

// prepareVolume makes a persistent volume fit for a new claim. skip says that it is not restored: the
// volume behind it went with its claim, and the claim gets a new one.
func (r *itemRun) prepareVolume() (skip bool, err error) {
	spec, err := splitFields(r.obj.top.get("spec"))
	if err != nil {
		return false, fmt.Errorf("its spec: %w", err)
	}
	if string(spec.get("persistentVolumeReclaimPolicy")) == string(quoteJSON(reclaimDelete)) {
		r.engine.provision(r.obj.Name)
		r.warn(fmt.Errorf("the data of volumes is not restored yet: %s has reclaim policy Delete, so it is not restored and its claim gets a new, empty volume", r.id))
		return true, nil
	}
	if claim, err := splitFields(spec.get("claimRef")); err == nil && claim != nil {
		claim.remove("uid")
		claim.remove("resourceVersion")
		var namespace string
		if json.Unmarshal(claim.get("namespace"), &namespace) == nil {
			claim.set("namespace", quoteJSON(r.engine.selection.target(namespace)))
		}
		spec.set("claimRef", claim.json())
		r.obj.top.set("spec", spec.json())
	}
	r.obj.removeAnnotations(bindCompletedAnnotation, boundByControllerAnnotation)
	return false, nil
}

// prepareClaim makes a claim to a volume fit to be bound again.
func (r *itemRun) prepareClaim() error {
	spec, err := splitFields(r.obj.top.get("spec"))
	if err != nil {
		return fmt.Errorf("its spec: %w", err)
	}
	var volume string
	if raw := spec.get("volumeName"); raw == nil || json.Unmarshal(raw, &volume) != nil || volume == "" {
		return nil
	}
	r.obj.removeAnnotations(bindCompletedAnnotation, boundByControllerAnnotation)
	if r.engine.isProvisioned(volume) {
		spec.remove("volumeName")
		r.obj.top.set("spec", spec.json())
	}
	return nil
}
