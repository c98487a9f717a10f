package volumes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// AddPodVolume adds a volume of a pod that an action backs up from the file system. pv is nil for one without a claim.
func (i *Infos) AddPodVolume(pv *corev1.PersistentVolume, of *PodInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	info := &VolumeInfo{}
	if pv != nil {
		info = i.of(pv)
	} else {
		i.ofPods = append(i.ofPods, info)
	}
	info.Skipped, info.SkippedReason, info.BackupMethod, info.PodVolume = false, "", PodVolume, of
}

// HasMethod reports whether the data of a persistent volume is backed up.
func (i *Infos) HasMethod(pv string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	info := i.byPV[pv]
	return info != nil && info.BackupMethod != ""
}

// BacksUpPodVolumes reports whether one of the operations is that of volumes of a pod.
func BacksUpPodVolumes(operations []operation.Operation, roles operation.Roles) bool {
	return slices.ContainsFunc(operations, func(o operation.Operation) bool {
		return roles.Has(o.Action, framework.RolePodVolumes)
	})
}

// SettlePodVolumes completes the entries of volumes of pods with their PodVolumeBackups, which have ended.
func SettlePodVolumes(infos []VolumeInfo, loads []velerov1.PodVolumeBackup) {
	for i := range infos {
		info := &infos[i]
		if info.BackupMethod != PodVolume || info.PodVolume == nil {
			continue
		}
		of := info.PodVolume
		at := slices.IndexFunc(loads, func(l velerov1.PodVolumeBackup) bool {
			return l.Spec.Pod.Namespace == of.PodNamespace && l.Spec.Pod.Name == of.PodName && l.Spec.Volume == of.VolumeName
		})
		info.Result = Unusable
		if at < 0 {
			continue
		}
		spec, status := &loads[at].Spec, &loads[at].Status
		of.UploaderType, of.NodeName, of.Phase = string(spec.UploaderType), spec.Node, status.Phase
		of.SnapshotHandle, of.Size, of.IncrementalSize = status.SnapshotID, status.Progress.TotalBytes,
			status.IncrementalBytes
		info.StartTimestamp, info.CompletionTimestamp = status.StartTimestamp, status.CompletionTimestamp
		if status.Phase == velerov1.LoadPhaseCompleted {
			info.Result = Succeeded
		}
	}
}
