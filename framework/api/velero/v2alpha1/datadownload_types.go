package v2alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// DataDownload requests that data which a DataUpload has moved into a repository is restored into a volume. It belongs
// to a Restore.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=dd
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the download, e.g. InProgress"
// +kubebuilder:printcolumn:name="Started",type="date",JSONPath=".status.startTimestamp",description="When the movement of data began"
// +kubebuilder:printcolumn:name="Bytes Done",type="integer",format="int64",JSONPath=".status.progress.bytesDone",description="Bytes that were moved"
// +kubebuilder:printcolumn:name="Total Bytes",type="integer",format="int64",JSONPath=".status.progress.totalBytes",description="Bytes of the snapshot"
// +kubebuilder:printcolumn:name="Storage Location",type="string",JSONPath=".spec.backupStorageLocation",description="The BackupStorageLocation with the repository"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.node",description="Node on which the data is moved"
type DataDownload struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the volume and the snapshot.
	// +optional
	Spec DataDownloadSpec `json:"spec,omitempty"`

	// Status is written by the node agents.
	// +optional
	Status DataDownloadStatus `json:"status,omitempty"`
}

// DataDownloadList is a list of DataDownloads.
//
// +kubebuilder:object:root=true
type DataDownloadList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the data downloads of the list.
	Items []DataDownload `json:"items"`
}

// DataDownloadSpec specifies a volume and the snapshot that it gets.
type DataDownloadSpec struct {
	// TargetVolume is the volume that gets the data.
	TargetVolume TargetVolumeSpec `json:"targetVolume"`

	// BackupStorageLocation is the name of the location with the repository.
	BackupStorageLocation string `json:"backupStorageLocation"`

	// DataMover is the name of the data mover that moves the data. Empty and velero mean the built-in one of the server
	// that has created the DataDownload. +optional
	DataMover string `json:"datamover,omitempty"`

	// SnapshotID identifies the snapshot in the repository.
	SnapshotID string `json:"snapshotID"`

	// SourceNamespace is the namespace from which the volume was backed up.
	SourceNamespace string `json:"sourceNamespace"`

	// DataMoverConfig are settings of the data mover.
	// +optional
	DataMoverConfig map[string]string `json:"dataMoverConfig,omitempty"`

	// Cancel requests that the download ends. It cannot be taken back.
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// OperationTimeout is how long to wait for internal steps, such as the volume.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	OperationTimeout metav1.Duration `json:"operationTimeout"`

	// NodeOS is the operating system of the node on which the data is to be moved.
	// +optional
	NodeOS NodeOS `json:"nodeOS,omitempty"`

	// SnapshotSize is the size of the snapshot in bytes.
	// +optional
	SnapshotSize int64 `json:"snapshotSize,omitempty"`
}

// TargetVolumeSpec specifies the volume that gets the data.
type TargetVolumeSpec struct {
	// PVC is the name of the volume claim.
	PVC string `json:"pvc"`

	// PV is the name of the persistent volume, or empty.
	PV string `json:"pv"`

	// Namespace is the namespace of the volume claim.
	Namespace string `json:"namespace"`
}

// DataDownloadStatus is the state of a DataDownload.
type DataDownloadStatus struct {
	v1.LoadStatus `json:",inline"`

	// Node is the name of the node on which the data is moved.
	// +optional
	Node string `json:"node,omitempty"`

	// AcceptedByNode is the name of the node whose agent makes the volume accessible.
	// +optional
	AcceptedByNode string `json:"acceptedByNode,omitempty"`
}
