package volumes

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

// TakesCSI reports whether one of the operations is that of a CSI snapshot, or moves the data of one.
func (h *Hub) TakesCSI(operations []operation.Operation) bool {
	return slices.ContainsFunc(operations, func(o operation.Operation) bool {
		return h.Roles.Has(o.Action, framework.RoleSnapshotObjects) || h.Roles.Has(o.Action, framework.RoleClaimSnapshots)
	})
}

// CompletedCSI returns the number of operations that have ended with a snapshot that is ready.
func (h *Hub) CompletedCSI(operations []operation.Operation) (count int) {
	for _, op := range operations {
		if op.Phase == operation.Completed && h.Roles.Has(op.Action, framework.RoleSnapshotObjects) {
			count++
		}
	}
	return count
}

// Settle completes the files of a backup whose operations have ended: it stores the PodVolumeBackups, and records in
// volumeinfo what became of them, of the CSI snapshots, and of the data that was moved. It returns as warnings what data
// movers could not keep of the volumes.
func (h *Hub) Settle(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, operations []operation.Operation, log hclog.Logger,
) (lost results.Result, err error) {
	ofPods := slices.ContainsFunc(operations, func(o operation.Operation) bool {
		return h.Roles.Has(o.Action, framework.RolePodVolumes)
	})
	if !ofPods && !h.TakesCSI(operations) {
		return lost, nil
	}
	of := losses{log: log}
	var loads velerov1.PodVolumeBackupList
	if ofPods {
		if loads.Items, err = written(ctx, h, b, &loads, &loads.Items, log); err != nil {
			return lost, err
		}
		slices.SortFunc(loads.Items, func(a, b velerov1.PodVolumeBackup) int { return strings.Compare(a.Name, b.Name) })
		for i := range loads.Items {
			load := &loads.Items[i]
			load.APIVersion, load.Kind, load.ManagedFields = velerov1.SchemeGroupVersion.String(), "PodVolumeBackup", nil
			if load.Status.Phase != velerov1.LoadPhaseCompleted {
				load.Status.SnapshotID = "" // of nothing
			}
			of.ofPod(&load.Spec.Pod, load.Spec.Volume, &load.Status.LoadStatus)
		}
		if err := store.PutJSON(ctx, objects.PutPodVolumeBackups, b.Name, loads.Items); err != nil {
			return lost, err
		}
	}
	uploads, err := h.uploads(ctx, b, operations, log)
	if err != nil {
		return lost, err
	}
	for _, id := range slices.Sorted(maps.Keys(uploads)) {
		upload := uploads[id]
		if h.HasMover != nil && h.HasMover(upload.Spec.DataMover) { // a vendor's message may say anything
			of.ofClaim(upload.Spec.SourceNamespace, upload.Spec.SourcePVC, &upload.Status.LoadStatus)
		}
	}
	infos, err := store.DecodeList[[]VolumeInfo](ctx, objects, velerov1.DownloadTargetKindBackupVolumeInfos, b.Name)
	if err != nil {
		return lost, err
	}
	if ofPods {
		settlePodVolumes(infos, loads.Items)
	}
	settleSnapshots(infos, operations, h.Roles)
	settleMovements(infos, operations, uploads, h.Roles)
	return of.found, store.PutJSON(ctx, objects.PutBackupVolumeInfo, b.Name, infos)
}

// settleSnapshots completes the entries of volumes whose snapshots were operations that have ended.
func settleSnapshots(infos []VolumeInfo, operations []operation.Operation, roles operation.Roles) {
	for i := range infos {
		info := &infos[i]
		if info.BackupMethod != CSI || info.SnapshotDataMoved || info.CSI == nil || info.CSI.OperationID == "" {
			continue
		}
		if info.endBy(info.CSI.OperationID, framework.RoleSnapshotObjects, operations, roles) {
			ready := info.Result == Succeeded
			info.CSI.ReadyToUse = &ready
		}
	}
}

// endBy records the end of the operation with an id, whose action has a role. It reports whether there is one.
func (i *VolumeInfo) endBy(
	id string, role framework.Role, operations []operation.Operation, roles operation.Roles,
) bool {
	at := slices.IndexFunc(operations, func(o operation.Operation) bool { return o.ID == id && roles.Has(o.Action, role) })
	if at < 0 {
		return false
	}
	i.Result = Unusable
	if operations[at].Phase == operation.Completed {
		i.Result = Succeeded
	}
	if updated := operations[at].Updated; !updated.IsZero() {
		i.CompletionTimestamp = &metav1.Time{Time: updated.Truncate(time.Second)}
	}
	return true
}

// settleMovements completes the entries of volumes whose data was moved by operations that have ended. uploads are the
// DataUploads of the backup by their operations.
func settleMovements(
	infos []VolumeInfo, operations []operation.Operation, uploads map[string]*velerov2alpha1.DataUpload,
	roles operation.Roles,
) {
	for i := range infos {
		info := &infos[i]
		moved := info.DataMovement
		if !info.SnapshotDataMoved || moved == nil ||
			!info.endBy(moved.OperationID, framework.RoleClaimSnapshots, operations, roles) {
			continue
		}
		upload := uploads[moved.OperationID]
		if upload == nil { // it was deleted
			continue
		}
		status := &upload.Status
		moved.DataMover = velerov1.StoredDataMover(upload.Spec.DataMover)
		moved.UploaderType = string(velerov1.EngineOf(upload.Spec.DataMover))
		moved.SnapshotHandle, moved.Size, moved.IncrementalSize, moved.Phase = status.SnapshotID, status.Progress.TotalBytes,
			status.IncrementalBytes, status.Phase
		if status.Phase.Terminal() && status.Phase != velerov1.LoadPhaseCompleted {
			info.Result = Unusable
		}
		if upload.Spec.CSISnapshot != nil {
			moved.RetainedSnapshot = upload.Spec.CSISnapshot.VolumeSnapshot
			if info.CSI != nil {
				info.CSI.Driver = upload.Spec.CSISnapshot.Driver
			}
		}
		info.StartTimestamp = status.StartTimestamp
		if status.CompletionTimestamp != nil {
			info.CompletionTimestamp = status.CompletionTimestamp
		}
	}
}

// settlePodVolumes completes the entries of volumes of pods with their PodVolumeBackups, which have ended.
func settlePodVolumes(infos []VolumeInfo, loads []velerov1.PodVolumeBackup) {
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
