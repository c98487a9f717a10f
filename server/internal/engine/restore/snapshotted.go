package restore

import (
	"cmp"
	"slices"

	"github.com/cleat-dev/cleat/server/internal/engine/restore/volume"
	"github.com/cleat-dev/cleat/server/internal/engine/snapshot"
)

// fromSnapshots returns the persistent volumes that the restore has made from snapshots of a VolumeSnapshotLocation,
// sorted. A volume that a former attempt has made counts as well.
func (e *engine) fromSnapshots(volumes []*volume.Volume) []snapshot.RestoreVolumeInfo {
	if wanted := e.restore.Spec.RestorePVs; wanted != nil && !*wanted {
		return nil
	}
	var made []snapshot.RestoreVolumeInfo
	for _, v := range volumes {
		if v.Snapshot == nil || !e.tracker.created(itemKey{listKey: "v1/PersistentVolume", name: v.PV}) {
			continue
		}
		info := snapshot.RestoreVolumeInfo{PVName: e.renamed(v.PV), RestoreMethod: snapshot.Native,
			Native: snapshot.NewNativeInfo(v.Snapshot)}
		info.Native.Phase = "" // Velero's file has none
		if v.Claim != "" && e.selection != nil {
			info.PVCNamespace, info.PVCName = e.selection.Target(v.ClaimNamespace), v.Claim
		}
		made = append(made, info)
	}
	slices.SortFunc(made, func(a, b snapshot.RestoreVolumeInfo) int { return cmp.Compare(a.PVName, b.PVName) })
	return made
}
