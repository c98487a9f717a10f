package volumes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// Infos collects what a backup knows of the data of its persistent volumes. It is safe for concurrent use.
type Infos struct {
	// DataMover is the name of the data mover of the backup.
	DataMover string

	mu        sync.Mutex
	byPV      map[string]*VolumeInfo
	ofPods    []*VolumeInfo // volumes of pods without a claim
	snapshots []*Snapshot
	csi       CSIFiles
	taken     []*snapshotv1.VolumeSnapshot                 // of csi
	contents  map[string]*snapshotv1.VolumeSnapshotContent // of csi, by name
}

// Skip adds a volume whose data is not backed up for a reason.
func (i *Infos) Skip(pv *corev1.PersistentVolume, reason string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	info := i.of(pv)
	info.Skipped, info.SkippedReason = true, reason
}

// Add adds a snapshot of a volume, whatever became of it.
func (i *Infos) Add(pv *corev1.PersistentVolume, s *Snapshot) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(pv).setSnapshot(s)
	i.snapshots = append(i.snapshots, s)
}

// Know adds a volume whose data an action may back up.
func (i *Infos) Know(pv *corev1.PersistentVolume) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(pv)
}

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

// HasMethod reports whether the data of a persistent volume is backed up.
func (i *Infos) HasMethod(pv string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	info := i.byPV[pv]
	return info != nil && info.BackupMethod != ""
}

// CSI returns what was added by AddCSI.
func (i *Infos) CSI() CSIFiles {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.csi
}

// of returns the entry of a volume. The caller holds mu.
func (i *Infos) of(pv *corev1.PersistentVolume) *VolumeInfo {
	if info := i.byPV[pv.Name]; info != nil {
		return info
	}
	info := &VolumeInfo{PVName: pv.Name, PV: &PVInfo{ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
		Labels: pv.Labels}}
	if claim := pv.Spec.ClaimRef; claim != nil {
		info.PVCNamespace, info.PVCName = claim.Namespace, claim.Name
	}
	if i.byPV == nil {
		i.byPV = map[string]*VolumeInfo{}
	}
	i.byPV[pv.Name] = info
	return info
}

// Files returns the content of the files volumesnapshots and volumeinfo, sorted by volume. They are never nil.
// operations are those of the backup.
func (i *Infos) Files(operations []operation.Operation, roles operation.Roles) ([]*Snapshot, []*VolumeInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	snapshots := slices.Clone(i.snapshots)
	infos := append(i.infosOfCSI(operations, roles), i.infosOfmovements(operations, roles)...)
	settled := map[string]bool{}
	for _, info := range infos {
		settled[info.PVName] = true
	}
	for _, info := range i.byPV {
		if !settled[info.PVName] && (info.Skipped || info.BackupMethod != "") {
			// otherwise an action was to back up the data, and has said why it did not
			infos = append(infos, info)
		}
	}
	infos = append(infos, i.ofPods...)
	slices.SortFunc(snapshots, func(a, b *Snapshot) int {
		return cmp.Or(strings.Compare(a.Spec.PersistentVolumeName, b.Spec.PersistentVolumeName),
			strings.Compare(a.Spec.Location, b.Spec.Location))
	})
	slices.SortFunc(infos, func(a, b *VolumeInfo) int {
		return cmp.Or(
			strings.Compare(a.PVName, b.PVName), strings.Compare(a.PVCNamespace, b.PVCNamespace), strings.Compare(a.PVCName,
				b.PVCName),
			comparePodVolumes(a.PodVolume, b.PodVolume),
		)
	})
	return append([]*Snapshot{}, snapshots...), append([]*VolumeInfo{}, infos...)
}

func comparePodVolumes(a, b *PodInfo) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Or(
		strings.Compare(a.PodNamespace, b.PodNamespace), strings.Compare(a.PodName, b.PodName), strings.Compare(a.VolumeName,
			b.VolumeName),
	)
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
			Driver:      vs.Annotations[velerov1.DriverNameAnnotation],
			GroupHandle: vs.Annotations[velerov1.VolumeGroupSnapshotHandleAnnotation]}
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

// unknown is what Velero writes for a CSI snapshot whose data is moved, because the snapshot is deleted afterwards.
const unknown = "unknown"

// movements returns the operations that move the data of CSI snapshots.
func movements(operations []operation.Operation, roles operation.Roles) []operation.Operation {
	return slices.DeleteFunc(slices.Clone(operations), func(o operation.Operation) bool {
		return !roles.Has(o.Action, framework.RoleClaimSnapshots)
	})
}

// infosOfMovements returns the entries of the volumes whose data is moved. The caller holds mu.
func (i *Infos) infosOfmovements(operations []operation.Operation, roles operation.Roles) (infos []*VolumeInfo) {
	byClaim, mover := i.byClaim(), i.DataMover
	for _, op := range movements(operations, roles) {
		info := &VolumeInfo{PVCNamespace: op.Item.Namespace, PVCName: op.Item.Name}
		if known := byClaim[types.NamespacedName{Namespace: op.Item.Namespace, Name: op.Item.Name}]; known != nil {
			info.PVName, info.PV = known.PVName, known.PV
		}
		info.BackupMethod, info.SnapshotDataMoved = CSI, true
		info.CSI = &CSIInfo{SnapshotHandle: unknown, VSCName: unknown, OperationID: unknown}
		engine := string(velerov1.EngineOf(mover))
		info.DataMovement = &MovementInfo{DataMover: velerov1.StoredDataMover(mover), UploaderType: engine,
			OperationID: op.ID}
		infos = append(infos, info)
	}
	return infos
}
