package backup

import (
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/server/item"
)

// preflight records what the spec requests and the server does not support.
func (e *engine) preflight() {
	spec := &e.req.Backup.Spec
	isTrue := func(b *bool) bool { return b != nil && *b }
	for _, request := range []struct {
		made    bool
		warning string
	}{
		{len(spec.Hooks.Resources) > 0, "spec.hooks: hooks are not supported yet, none is run"},
		{isTrue(spec.SnapshotVolumes), "spec.snapshotVolumes: snapshots of volumes are not supported yet, none is taken"},
		{len(spec.VolumeSnapshotLocations) > 0, "spec.volumeSnapshotLocations: snapshots of volumes are not supported yet, none is taken"},
		{isTrue(spec.DefaultVolumesToFsBackup), "spec.defaultVolumesToFsBackup: file system backups of volumes are not supported yet, the data of volumes is not backed up"},
		{isTrue(spec.SnapshotMoveData), "spec.snapshotMoveData: data movement is not supported yet, the data of volumes is not backed up"},
		{e.req.Policy != nil && e.req.Policy.VolumePolicies > 0, "spec.resourcePolicy: volumePolicies are not supported yet, those of the policy have no effect"},
	} {
		if request.made {
			e.warn(request.warning)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.OrderedResources)) {
		if _, ok := e.sel.snapshot.Resolve(name); !ok {
			e.warn("spec.orderedResources: " + name + " is not a resource of this cluster; write a plural name such as pods or deployments.apps")
		}
	}
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
