package volumes

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// unknown is what Velero writes for a CSI snapshot whose data is moved, because the snapshot is deleted afterwards.
const unknown = "unknown"

// Movements returns the operations that move the data of CSI snapshots.
func Movements(operations []operation.Operation, roles operation.Roles) []operation.Operation {
	return slices.DeleteFunc(slices.Clone(operations), func(o operation.Operation) bool {
		return !roles.Has(o.Action, framework.RoleClaimSnapshots)
	})
}

// infosOfMovements returns the entries of the volumes whose data is moved. The caller holds mu.
func (i *Infos) infosOfMovements(operations []operation.Operation, roles operation.Roles) (infos []*VolumeInfo) {
	byClaim, mover := i.byClaim(), velerov1.DataMoverFor(i.DataMover)
	for _, op := range Movements(operations, roles) {
		info := &VolumeInfo{PVCNamespace: op.Item.Namespace, PVCName: op.Item.Name}
		if known := byClaim[types.NamespacedName{Namespace: op.Item.Namespace, Name: op.Item.Name}]; known != nil {
			info.PVName, info.PV = known.PVName, known.PV
		}
		info.BackupMethod, info.SnapshotDataMoved = CSI, true
		info.CSI = &CSIInfo{SnapshotHandle: unknown, VSCName: unknown, OperationID: unknown}
		info.DataMovement = &MovementInfo{DataMover: mover, UploaderType: string(velerov1.EngineOf(mover)), OperationID: op.ID}
		infos = append(infos, info)
	}
	return infos
}

// SettleMovements completes the entries of volumes whose data was moved by operations that have ended. uploads are the
// DataUploads of the backup by their operations. It reports whether there are such.
func SettleMovements(
	infos []VolumeInfo, operations []operation.Operation, uploads map[string]*velerov2alpha1.DataUpload,
	roles operation.Roles,
) bool {
	settled := false
	for i := range infos {
		info := &infos[i]
		if !info.SnapshotDataMoved || info.DataMovement == nil {
			continue
		}
		moved := info.DataMovement
		at := slices.IndexFunc(operations, func(o operation.Operation) bool {
			return o.ID == moved.OperationID && roles.Has(o.Action, framework.RoleClaimSnapshots)
		})
		if at < 0 {
			continue
		}
		info.Result, settled = Unusable, true
		if operations[at].Phase == operation.Completed {
			info.Result = Succeeded
		}
		if updated := operations[at].Updated; !updated.IsZero() {
			info.CompletionTimestamp = &metav1.Time{Time: updated.Truncate(time.Second)}
		}
		upload := uploads[moved.OperationID]
		if upload == nil { // it was deleted
			continue
		}
		status := &upload.Status
		moved.DataMover, moved.UploaderType = upload.Spec.DataMover, string(velerov1.EngineOf(upload.Spec.DataMover))
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
	return settled
}
