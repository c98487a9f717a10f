package v1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DownloadRequest requests a signed URL for one file of a backup or restore. The server deletes the
// request when the URL has expired.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=dreq
// +kubebuilder:printcolumn:name="Target Kind",type="string",JSONPath=".spec.target.kind",description="Which file of the backup or restore"
// +kubebuilder:printcolumn:name="Target Name",type="string",JSONPath=".spec.target.name",description="The backup or restore"
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the request"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type DownloadRequest struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the file to download.
	// +optional
	Spec DownloadRequestSpec `json:"spec,omitempty"`

	// Status is the server's response.
	// +optional
	Status DownloadRequestStatus `json:"status,omitempty"`
}

// DownloadRequestList is a list of DownloadRequests.
//
// +kubebuilder:object:root=true
type DownloadRequestList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the requests of the list.
	Items []DownloadRequest `json:"items"`
}

// DownloadRequestSpec specifies the file to download.
type DownloadRequestSpec struct {
	// Target is the file.
	Target DownloadTarget `json:"target"`
}

// DownloadTarget is one file of a backup or restore.
type DownloadTarget struct {
	// Kind is the kind of the file.
	Kind DownloadTargetKind `json:"kind"`

	// Name is the name of the Restore if the kind is that of a restore's file, and of the Backup
	// otherwise.
	Name string `json:"name"`
}

// DownloadTargetKind is a kind of file in the bucket.
//
// +kubebuilder:validation:Enum=BackupLog;BackupContents;BackupVolumeSnapshots;BackupItemOperations;BackupResourceList;BackupResults;RestoreLog;RestoreResults;RestoreResourceList;RestoreItemOperations;CSIBackupVolumeSnapshots;CSIBackupVolumeSnapshotContents;BackupVolumeInfos;RestoreVolumeInfo
type DownloadTargetKind string

const (
	// DownloadTargetKindBackupLog is the log of a backup.
	DownloadTargetKindBackupLog DownloadTargetKind = "BackupLog"

	// DownloadTargetKindBackupContents is the archive with the items of a backup.
	DownloadTargetKindBackupContents DownloadTargetKind = "BackupContents"

	// DownloadTargetKindBackupVolumeSnapshots lists the snapshots made by volume snapshotter
	// plugins.
	DownloadTargetKindBackupVolumeSnapshots DownloadTargetKind = "BackupVolumeSnapshots"

	// DownloadTargetKindBackupItemOperations lists the asynchronous operations of a backup.
	DownloadTargetKindBackupItemOperations DownloadTargetKind = "BackupItemOperations"

	// DownloadTargetKindBackupResourceList lists the items of a backup by kind.
	DownloadTargetKindBackupResourceList DownloadTargetKind = "BackupResourceList"

	// DownloadTargetKindBackupResults holds the errors and warnings of a backup.
	DownloadTargetKindBackupResults DownloadTargetKind = "BackupResults"

	// DownloadTargetKindRestoreLog is the log of a restore.
	DownloadTargetKindRestoreLog DownloadTargetKind = "RestoreLog"

	// DownloadTargetKindRestoreResults holds the errors and warnings of a restore.
	DownloadTargetKindRestoreResults DownloadTargetKind = "RestoreResults"

	// DownloadTargetKindRestoreResourceList lists the items of a restore by kind.
	DownloadTargetKindRestoreResourceList DownloadTargetKind = "RestoreResourceList"

	// DownloadTargetKindRestoreItemOperations lists the asynchronous operations of a restore.
	DownloadTargetKindRestoreItemOperations DownloadTargetKind = "RestoreItemOperations"

	// DownloadTargetKindCSIBackupVolumeSnapshots lists the CSI volume snapshots of a backup made
	// by an old server.
	DownloadTargetKindCSIBackupVolumeSnapshots DownloadTargetKind = "CSIBackupVolumeSnapshots"

	// DownloadTargetKindCSIBackupVolumeSnapshotContents lists the CSI volume snapshot contents of
	// a backup made by an old server.
	DownloadTargetKindCSIBackupVolumeSnapshotContents DownloadTargetKind = "CSIBackupVolumeSnapshotContents"

	// DownloadTargetKindBackupVolumeInfos has for each volume of a backup how it was backed up.
	DownloadTargetKindBackupVolumeInfos DownloadTargetKind = "BackupVolumeInfos"

	// DownloadTargetKindRestoreVolumeInfo has for each volume of a restore how it was restored.
	DownloadTargetKindRestoreVolumeInfo DownloadTargetKind = "RestoreVolumeInfo"
)

// OfRestore reports whether the file belongs to a restore, so that the target has the name of a
// Restore. All other files belong to a backup.
func (k DownloadTargetKind) OfRestore() bool {
	return strings.HasPrefix(string(k), "Restore")
}

// DownloadRequestStatus is the server's response.
type DownloadRequestStatus struct {
	// Phase is the state of the request. Empty means New.
	// +optional
	Phase DownloadRequestPhase `json:"phase,omitempty"`

	// DownloadURL is the signed URL of the file.
	// +optional
	DownloadURL string `json:"downloadURL,omitempty"`

	// Expiration is when the URL expires and the request is deleted, 10 minutes after the
	// response.
	// +optional
	// +nullable
	Expiration *metav1.Time `json:"expiration,omitempty"`

	// Message is the reason why the request is Failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// DownloadRequestPhase is the state of a DownloadRequest. The empty phase is the same as New.
//
// +kubebuilder:validation:Enum=New;Processed;Failed
type DownloadRequestPhase string

const (
	// DownloadRequestPhaseNew is a request that has not been answered yet.
	DownloadRequestPhaseNew DownloadRequestPhase = "New"

	// DownloadRequestPhaseProcessed is a request that has been answered.
	DownloadRequestPhaseProcessed DownloadRequestPhase = "Processed"

	// DownloadRequestPhaseFailed is a request for a file that does not exist, because its backup or
	// restore has not begun, or for a file that cannot be downloaded. status.message has the reason, and
	// a download from status.downloadURL fails with it.
	DownloadRequestPhaseFailed DownloadRequestPhase = "Failed"
)
