package v2alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// DataUpload requests that the data of a volume's snapshot is moved into a repository. It belongs to a Backup.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=du
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the upload, e.g. InProgress"
// +kubebuilder:printcolumn:name="Started",type="date",JSONPath=".status.startTimestamp",description="When the movement of data began"
// +kubebuilder:printcolumn:name="Bytes Done",type="integer",format="int64",JSONPath=".status.progress.bytesDone",description="Bytes that were moved"
// +kubebuilder:printcolumn:name="Total Bytes",type="integer",format="int64",JSONPath=".status.progress.totalBytes",description="Bytes of the volume"
// +kubebuilder:printcolumn:name="Incremental Bytes",type="integer",format="int64",JSONPath=".status.incrementalBytes",description="Bytes that were not in the repository before",priority=10
// +kubebuilder:printcolumn:name="Storage Location",type="string",JSONPath=".spec.backupStorageLocation",description="The BackupStorageLocation with the repository"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.node",description="Node on which the data is moved"
type DataUpload struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the snapshot and where its data goes.
	// +optional
	Spec DataUploadSpec `json:"spec,omitempty"`

	// Status is written by the node agents.
	// +optional
	Status DataUploadStatus `json:"status,omitempty"`
}

// DataUploadList is a list of DataUploads.
//
// +kubebuilder:object:root=true
type DataUploadList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the data uploads of the list.
	Items []DataUpload `json:"items"`
}

// DataUploadSpec specifies the snapshot of a volume and where its data goes.
type DataUploadSpec struct {
	// SnapshotType is the type of the snapshot: CSI.
	SnapshotType SnapshotType `json:"snapshotType"`

	// CSISnapshot is the snapshot if snapshotType is CSI.
	// +optional
	// +nullable
	CSISnapshot *CSISnapshotSpec `json:"csiSnapshot"`

	// SourcePVC is the name of the volume claim from which the snapshot was taken.
	SourcePVC string `json:"sourcePVC"`

	// DataMover is the name of the data mover that moves the data. Empty and velero mean the built-in one of the server
	// that has created the DataUpload. +optional
	DataMover string `json:"datamover,omitempty"`

	// BackupStorageLocation is the name of the location with the repository.
	BackupStorageLocation string `json:"backupStorageLocation"`

	// SourceNamespace is the namespace of the volume claim and of the snapshot.
	SourceNamespace string `json:"sourceNamespace"`

	// DataMoverConfig are settings of the data mover.
	// +optional
	// +nullable
	DataMoverConfig map[string]string `json:"dataMoverConfig,omitempty"`

	// Cancel requests that the upload ends. It cannot be taken back.
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// OperationTimeout is how long to wait for internal steps, such as the readiness of the snapshot.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	OperationTimeout metav1.Duration `json:"operationTimeout"`
}

// SnapshotType is the type of a snapshot.
type SnapshotType string

// SnapshotTypeCSI is a snapshot that a CSI driver has taken.
const SnapshotTypeCSI SnapshotType = "CSI"

// CSISnapshotSpec specifies the snapshot of a CSI volume.
type CSISnapshotSpec struct {
	// VolumeSnapshot is the name of the VolumeSnapshot.
	VolumeSnapshot string `json:"volumeSnapshot"`

	// StorageClass is the name of the storage class of the volume claim.
	StorageClass string `json:"storageClass"`

	// SnapshotClass is the name of the VolumeSnapshotClass.
	// +optional
	SnapshotClass string `json:"snapshotClass"`

	// Driver is the name of the CSI driver.
	// +optional
	Driver string `json:"driver,omitempty"`
}

// NodeOS is the operating system of a node.
//
// +kubebuilder:validation:Enum=auto;linux;windows
type NodeOS string

const (
	// NodeOSLinux is a node that runs Linux.
	NodeOSLinux NodeOS = "linux"

	// NodeOSWindows is a node that runs Windows.
	NodeOSWindows NodeOS = "windows"

	// NodeOSAuto leaves the choice of the operating system to the data mover.
	NodeOSAuto NodeOS = "auto"
)

// DataUploadStatus is the state of a DataUpload.
type DataUploadStatus struct {
	v1.LoadStatus `json:",inline"`

	// Path is the directory or device that was backed up, as the node agent sees it.
	// +optional
	Path string `json:"path,omitempty"`

	// SnapshotID identifies the snapshot in the repository.
	// +optional
	SnapshotID string `json:"snapshotID,omitempty"`

	// DataMoverResult is what the data mover needs to know for a restore.
	// +optional
	// +nullable
	DataMoverResult map[string]string `json:"dataMoverResult,omitempty"`

	// IncrementalBytes is the number of bytes that were not in the repository before.
	// +optional
	IncrementalBytes int64 `json:"incrementalBytes,omitempty"`

	// Node is the name of the node on which the data is moved.
	// +optional
	Node string `json:"node,omitempty"`

	// NodeOS is the operating system of that node.
	// +optional
	NodeOS NodeOS `json:"nodeOS,omitempty"`

	// AcceptedByNode is the name of the node whose agent makes the snapshot accessible.
	// +optional
	AcceptedByNode string `json:"acceptedByNode,omitempty"`
}

// DataUploadResult is what a restore needs to know about an ended DataUpload. During a restore it is, as JSON, the
// value of a ConfigMap whose key is the UID of the Restore.
type DataUploadResult struct {
	// BackupStorageLocation is the name of the location with the repository.
	BackupStorageLocation string `json:"backupStorageLocation"`

	// DataMover is the name of the data mover that has moved the data.
	// +optional
	DataMover string `json:"datamover,omitempty"`

	// SnapshotID identifies the snapshot in the repository.
	// +optional
	SnapshotID string `json:"snapshotID,omitempty"`

	// SourceNamespace is the namespace of the volume claim.
	SourceNamespace string `json:"sourceNamespace"`

	// DataMoverResult is what the data mover has noted for a restore.
	// +optional
	DataMoverResult map[string]string `json:"dataMoverResult,omitempty"`

	// NodeOS is the operating system of the node on which the data was moved.
	// +optional
	NodeOS NodeOS `json:"nodeOS,omitempty"`

	// SnapshotSize is the size of the snapshot in bytes.
	// +optional
	SnapshotSize int64 `json:"snapshotSize,omitempty"`
}
