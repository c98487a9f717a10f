package restore

import (
	"cmp"
	"slices"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/volume"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// fromSnapshots returns the persistent volumes that the restore has made from snapshots of a VolumeSnapshotLocation,
// sorted. A volume that a former attempt has made counts as well.
func (e *engine) fromSnapshots(stored []*volume.Volume) []volumes.RestoreVolumeInfo {
	if wanted := e.restore.Spec.RestorePVs; wanted != nil && !*wanted {
		return nil
	}
	var made []volumes.RestoreVolumeInfo
	for _, v := range stored {
		if v.Snapshot == nil || !e.tracker.created(itemKey{listKey: "v1/PersistentVolume", name: v.PV},
			archive.Entry{GroupResource: volumesResource, Name: v.PV}) {
			continue
		}
		info := volumes.RestoreVolumeInfo{PVName: e.renamed(v.PV), RestoreMethod: volumes.Native,
			Native: volumes.NewNativeInfo(v.Snapshot)}
		info.Native.Phase = "" // Velero's file has none
		if v.Claim != "" && e.selection != nil {
			info.PVCNamespace, info.PVCName = e.selection.Target(v.ClaimNamespace), v.Claim
		}
		made = append(made, info)
	}
	slices.SortFunc(made, func(a, b volumes.RestoreVolumeInfo) int { return cmp.Compare(a.PVName, b.PVName) })
	return made
}
