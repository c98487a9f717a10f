package volumes

import (
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Phase is the phase of a Snapshot, as Velero's files name it.
type Phase string

// Phases.
const (
	New       Phase = "New"
	Completed Phase = "Completed"
	Failed    Phase = "Failed"
)

// Snapshot is an entry of the file volumesnapshots.
type Snapshot struct {
	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`
}

// Spec is what was requested.
type Spec struct {
	BackupName           string `json:"backupName"`
	BackupUID            string `json:"backupUID"`
	Location             string `json:"location"` // name of the VolumeSnapshotLocation
	PersistentVolumeName string `json:"persistentVolumeName"`
	ProviderVolumeID     string `json:"providerVolumeID"`
	VolumeType           string `json:"volumeType"`
	VolumeAZ             string `json:"volumeAZ,omitempty"`
	VolumeIOPS           *int64 `json:"volumeIOPS,omitempty"` // nil for a type that has none
}

// Status is what became of it.
type Status struct {
	ProviderSnapshotID string `json:"providerSnapshotID,omitempty"`
	Phase              Phase  `json:"phase,omitempty"`
}

// Method is how the data of a volume was backed up.
type Method string

// Methods.
const (
	Native    Method = "NativeSnapshot"
	PodVolume Method = "PodVolumeBackup"
	CSI       Method = "CSISnapshot"

	// PodVolumeRestore is how the data of a volume of a pod was restored.
	PodVolumeRestore Method = "PodVolumeRestore"
)

// Result is whether the data of a volume was backed up.
type Result string

// Results.
const (
	Succeeded Result = "succeeded"
	Unusable  Result = "failed"
)

// VolumeInfo is an entry of the file volumeinfo.
type VolumeInfo struct {
	PVCName               string        `json:"pvcName,omitempty"`
	PVCNamespace          string        `json:"pvcNamespace,omitempty"`
	PVName                string        `json:"pvName,omitempty"`
	BackupMethod          Method        `json:"backupMethod,omitempty"`
	SnapshotDataMoved     bool          `json:"snapshotDataMoved"`
	PreserveLocalSnapshot bool          `json:"preserveLocalSnapshot"`
	Skipped               bool          `json:"skipped"`
	SkippedReason         string        `json:"skippedReason,omitempty"`
	StartTimestamp        *metav1.Time  `json:"startTimestamp,omitempty"`
	CompletionTimestamp   *metav1.Time  `json:"completionTimestamp,omitempty"`
	Result                Result        `json:"result,omitempty"`
	CSI                   *CSIInfo      `json:"csiSnapshotInfo,omitempty"`
	DataMovement          *MovementInfo `json:"snapshotDataMovementInfo,omitempty"`
	Native                *NativeInfo   `json:"nativeSnapshotInfo,omitempty"`
	PodVolume             *PodInfo      `json:"pvbInfo,omitempty"`
	PV                    *PVInfo       `json:"pvInfo,omitempty"`
}

// CSIInfo describes a CSI snapshot.
type CSIInfo struct {
	SnapshotHandle string `json:"snapshotHandle"`
	Size           int64  `json:"size"` // bytes
	Driver         string `json:"driver"`
	VSCName        string `json:"vscName"`
	OperationID    string `json:"operationID,omitempty"`
	ReadyToUse     *bool  `json:"ReadyToUse"` // Velero's field has no tag
	GroupHandle    string `json:"volumeGroupSnapshotHandle,omitempty"`
}

// MovementInfo describes data that was moved to the backup storage.
type MovementInfo struct {
	DataMover    string `json:"dataMover"`
	UploaderType string `json:"uploaderType"`
	// name of the VolumeSnapshot, in Velero even if it was deleted
	RetainedSnapshot string             `json:"retainedSnapshot,omitempty"`
	SnapshotHandle   string             `json:"snapshotHandle"`
	OperationID      string             `json:"operationID"`
	Size             int64              `json:"size"`
	IncrementalSize  int64              `json:"incrementalSize,omitempty"`
	Phase            velerov1.LoadPhase // of the DataUpload; Velero's field has no tag
}

// NativeInfo describes a snapshot of a VolumeSnapshotLocation.
type NativeInfo struct {
	SnapshotHandle string `json:"snapshotHandle"`
	VolumeType     string `json:"volumeType"`
	VolumeAZ       string `json:"volumeAZ"`
	IOPS           string `json:"iops"`
	Phase          Phase  `json:"Phase"` // Velero's field has no tag
}

// PodInfo describes a file system backup of a volume of a pod.
type PodInfo struct {
	SnapshotHandle  string             `json:"snapshotHandle,omitempty"`
	Size            int64              `json:"size,omitempty"`
	IncrementalSize int64              `json:"incrementalSize,omitempty"`
	UploaderType    string             `json:"uploaderType"`
	VolumeName      string             `json:"volumeName"`
	PodName         string             `json:"podName"`
	PodNamespace    string             `json:"podNamespace"`
	NodeName        string             `json:"nodeName,omitempty"`
	Phase           velerov1.LoadPhase `json:"Phase,omitempty"` // Velero's field has no tag
}

// PVInfo has what a persistent volume that is provisioned again would lose.
type PVInfo struct {
	ReclaimPolicy string            `json:"reclaimPolicy"`
	Labels        map[string]string `json:"labels"`
}

// setSnapshot completes the entry of a volume with its snapshot.
func (i *VolumeInfo) setSnapshot(s *Snapshot) {
	i.BackupMethod, i.Result = Native, Unusable
	if s.Status.Phase == Completed {
		i.Result = Succeeded
	}
	i.Native = NewNativeInfo(s)
}

// NewNativeInfo returns the description of a snapshot.
func NewNativeInfo(s *Snapshot) *NativeInfo {
	var iops int64
	if s.Spec.VolumeIOPS != nil {
		iops = *s.Spec.VolumeIOPS
	}
	return &NativeInfo{
		SnapshotHandle: s.Status.ProviderSnapshotID, VolumeType: s.Spec.VolumeType, VolumeAZ: s.Spec.VolumeAZ,
		IOPS: strconv.FormatInt(iops, 10), Phase: s.Status.Phase,
	}
}

// RestoreVolumeInfo is an entry of the file volumeinfo of a restore: from what a volume was restored.
type RestoreVolumeInfo struct {
	PVCName           string        `json:"pvcName,omitempty"`
	PVCNamespace      string        `json:"pvcNamespace,omitempty"`
	PVName            string        `json:"pvName,omitempty"` // of the restored volume
	RestoreMethod     Method        `json:"restoreMethod,omitempty"`
	SnapshotDataMoved bool          `json:"snapshotDataMoved"`
	CSI               *CSIInfo      `json:"csiSnapshotInfo,omitempty"`
	DataMovement      *MovementInfo `json:"snapshotDataMovementInfo,omitempty"`
	Native            *NativeInfo   `json:"nativeSnapshotInfo,omitempty"`
	PodVolume         *PodInfo      `json:"pvrInfo,omitempty"`
}

// CSIFiles are the VolumeSnapshots of a backup, their contents and classes, as Velero's files have them.
type CSIFiles struct {
	Snapshots, Contents, Classes []json.RawMessage
}
