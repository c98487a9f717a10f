package backup

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/server/gaps"
	"github.com/cleat-dev/cleat/server/item"
)

// preflight records what the spec requests and the server does not support.
func (e *engine) preflight() {
	spec := &e.req.Backup.Spec
	for _, warning := range gaps.Warnings(gaps.Backup(), spec) {
		e.gap(warning)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.OrderedResources)) {
		if _, ok := e.sel.snapshot.Resolve(name); !ok {
			e.warn("spec.orderedResources: " + name + " is not a resource of this cluster; write a plural name such as pods or deployments.apps")
		}
	}
}

// gap records a warning about something that the spec requests and the server does not support.
func (e *engine) gap(warning string) {
	e.record.gap(warning)
	e.warn(warning)
}

// warnOfPod records what the annotations of a pod request and the server does not support.
func (e *engine) warnOfPod(o object, meta item.Meta) {
	if len(meta.Annotations) == 0 || o.resource.GroupResource() != podsResource {
		return
	}
	for _, request := range []struct{ annotation, warning string }{
		{"pre.hook.backup.velero.io/command", "hooks are not supported yet, none is run"},
		{"hook.backup.velero.io/command", "hooks are not supported yet, none is run"},
		{"post.hook.backup.velero.io/command", "hooks are not supported yet, none is run"},
		{"backup.velero.io/backup-volumes", "file system backups of volumes are not supported yet, the data of volumes is not backed up"},
	} {
		if meta.Annotations[request.annotation] != "" {
			text := "annotation " + request.annotation + ": " + request.warning
			e.record.warned(podsResource, meta.Namespace, meta.Name, text, nil)
			e.log.Warn(text, "namespace", meta.Namespace, "name", meta.Name)
		}
	}
}

// fileSystemVolumes returns the number of volumes of a pod that a file system backup takes and that have no claim, whose
// persistent volume is counted.
func fileSystemVolumes(pod []byte) int {
	var decoded struct {
		Spec struct {
			Volumes []map[string]json.RawMessage `json:"volumes"`
		} `json:"spec"`
	}
	if json.Unmarshal(pod, &decoded) != nil {
		return 0
	}
	n := 0
	for _, volume := range decoded.Spec.Volumes {
		counts := true
		for _, source := range []string{"hostPath", "secret", "configMap", "projected", "downwardAPI", "persistentVolumeClaim"} {
			if volume[source] != nil {
				counts = false
			}
		}
		if counts {
			n++
		}
	}
	return n
}
