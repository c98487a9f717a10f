package volumes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// VolumeSnapshots looks after the VolumeSnapshots of backups and restores. Its calls can be repeated.
type VolumeSnapshots interface {
	// Remove deletes the VolumeSnapshots of the backup with a UID, also at the storage system.
	Remove(ctx context.Context, backup types.UID) error
	// Keep deletes only the objects of the backup with a UID: the storage system keeps what is ready.
	Keep(ctx context.Context, backup types.UID) error
	// Restored returns the VolumeSnapshots that the restore with a UID has created.
	Restored(ctx context.Context, restore types.UID) ([]types.NamespacedName, error)
	// DropRestored deletes the objects of a restored VolumeSnapshot.
	DropRestored(ctx context.Context, vs types.NamespacedName) error
	// DropResults deletes the results of DataUploads that were created in a namespace for the restore with a UID.
	DropResults(ctx context.Context, namespace string, restore types.UID) error
}

// CSIFiles are the VolumeSnapshots of a backup, their contents and classes, as Velero's files have them.
type CSIFiles struct {
	Snapshots, Contents, Classes []json.RawMessage
}

// AddCSI adds an item of the group snapshot.storage.k8s.io in the backup. It ignores the VolumeSnapshots of other
// backups.
func (i *Infos) AddCSI(resource string, labels map[string]string, backup types.UID, raw []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	own := labels[velerov1.BackupUIDLabel] == string(backup)
	switch {
	case resource == "volumesnapshotclasses":
		i.csi.Classes = append(i.csi.Classes, bytes.Clone(raw))
	case resource == "volumesnapshotcontents":
		content := new(snapshotv1.VolumeSnapshotContent)
		if err := json.Unmarshal(raw, content); err != nil {
			return fmt.Errorf("decode the VolumeSnapshotContent: %w", err)
		}
		i.csi.Contents = append(i.csi.Contents, bytes.Clone(raw))
		if i.contents == nil {
			i.contents = map[string]*snapshotv1.VolumeSnapshotContent{}
		}
		i.contents[content.Name] = content
	case resource == "volumesnapshots" && own:
		vs := new(snapshotv1.VolumeSnapshot)
		if err := json.Unmarshal(raw, vs); err != nil {
			return fmt.Errorf("decode the VolumeSnapshot: %w", err)
		}
		i.csi.Snapshots = append(i.csi.Snapshots, bytes.Clone(raw))
		i.taken = append(i.taken, vs)
	}
	return nil
}

// Know adds a volume whose data an action may back up.
func (i *Infos) Know(pv *corev1.PersistentVolume) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(pv)
}

// SkipOpen marks as skipped the volumes that no action has backed up because their claims are not in the backup.
func (i *Infos) SkipOpen(hasClaim func(namespace, name string) bool, reason string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, info := range i.byPV {
		if !info.Skipped && info.BackupMethod == "" && !hasClaim(info.PVCNamespace, info.PVCName) {
			info.Skipped, info.SkippedReason = true, reason
		}
	}
}

// CSI returns what was added by AddCSI.
func (i *Infos) CSI() CSIFiles {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.csi
}

// infosOfCSI returns the entries of the volumes of which CSI snapshots were taken. The caller holds mu.
func (i *Infos) infosOfCSI(operations []operation.Operation, roles operation.Roles) (infos []*VolumeInfo) {
	byClaim := i.byClaim()
	for _, vs := range i.taken {
		claim := vs.Spec.Source.PersistentVolumeClaimName
		if claim == nil {
			continue
		}
		info := &VolumeInfo{PVCNamespace: vs.Namespace, PVCName: *claim}
		if known := byClaim[types.NamespacedName{Namespace: vs.Namespace, Name: *claim}]; known != nil {
			info.PVName, info.PV = known.PVName, known.PV
		}
		info.BackupMethod, info.PreserveLocalSnapshot = CSI, true
		info.CSI = &CSIInfo{SnapshotHandle: vs.Annotations[velerov1.VolumeSnapshotHandleAnnotation],
			Driver: vs.Annotations[velerov1.DriverNameAnnotation]}
		if s := vs.Status; s != nil && s.BoundVolumeSnapshotContentName != nil {
			info.CSI.VSCName = *s.BoundVolumeSnapshotContentName
		}
		// The status of the snapshot follows that of its content.
		if content := i.contents[info.CSI.VSCName]; content != nil && content.Status != nil {
			info.CSI.ReadyToUse = content.Status.ReadyToUse
			if at := content.Status.CreationTime; at != nil {
				info.StartTimestamp = &metav1.Time{Time: time.Unix(0, *at).UTC().Truncate(time.Second)}
			}
			if size := content.Status.RestoreSize; size != nil {
				info.CSI.Size = *size
			}
		}
		for _, op := range operations {
			if op.Item.Namespace == vs.Namespace && op.Item.Name == vs.Name &&
				roles.Has(op.Action, framework.RoleSnapshotObjects) {
				info.CSI.OperationID = op.ID
			}
		}
		infos = append(infos, info)
	}
	return infos
}

// byClaim returns the entries of volumes by their claims. The caller holds mu.
func (i *Infos) byClaim() map[types.NamespacedName]*VolumeInfo {
	byClaim := map[types.NamespacedName]*VolumeInfo{}
	for _, info := range i.byPV {
		byClaim[types.NamespacedName{Namespace: info.PVCNamespace, Name: info.PVCName}] = info
	}
	return byClaim
}

// Settle completes the entries of volumes whose snapshots were operations that have ended. It reports whether there are
// such.
func Settle(infos []VolumeInfo, operations []operation.Operation, roles operation.Roles) bool {
	settled := false
	for i := range infos {
		info := &infos[i]
		if info.BackupMethod != CSI || info.SnapshotDataMoved || info.CSI == nil || info.CSI.OperationID == "" {
			continue
		}
		at := slices.IndexFunc(operations, func(o operation.Operation) bool {
			return o.ID == info.CSI.OperationID && roles.Has(o.Action, framework.RoleSnapshotObjects)
		})
		if at < 0 {
			continue
		}
		ready := operations[at].Phase == operation.Completed
		info.CSI.ReadyToUse, info.Result, settled = &ready, Unusable, true
		if ready {
			info.Result = Succeeded
		}
		if updated := operations[at].Updated; !updated.IsZero() {
			info.CompletionTimestamp = &metav1.Time{Time: updated.Truncate(time.Second)}
		}
	}
	return settled
}

// CompletedCSI returns the number of operations that have ended with a snapshot that is ready.
func CompletedCSI(operations []operation.Operation, roles operation.Roles) (count int) {
	for _, op := range operations {
		if op.Phase == operation.Completed && roles.Has(op.Action, framework.RoleSnapshotObjects) {
			count++
		}
	}
	return count
}

// TakesCSI reports whether one of the operations is that of a CSI snapshot, or moves the data of one.
func TakesCSI(operations []operation.Operation, roles operation.Roles) bool {
	return slices.ContainsFunc(operations, func(o operation.Operation) bool {
		return roles.Has(o.Action, framework.RoleSnapshotObjects) || roles.Has(o.Action, framework.RoleClaimSnapshots)
	})
}
