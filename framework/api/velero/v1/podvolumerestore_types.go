package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodVolumeRestore requests that the data of a PodVolumeBackup is restored into a volume of a pod, whose init container
// restore-wait waits for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pvr
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the restore, e.g. InProgress"
// +kubebuilder:printcolumn:name="Started",type="date",JSONPath=".status.startTimestamp",description="When the movement of data began"
// +kubebuilder:printcolumn:name="Bytes Done",type="integer",format="int64",JSONPath=".status.progress.bytesDone",description="Bytes that were moved"
// +kubebuilder:printcolumn:name="Total Bytes",type="integer",format="int64",JSONPath=".status.progress.totalBytes",description="Bytes of the snapshot"
// +kubebuilder:printcolumn:name="Storage Location",type="string",JSONPath=".spec.backupStorageLocation",description="The BackupStorageLocation with the repository"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.node",description="Node on which the data is restored"
// +kubebuilder:printcolumn:name="Uploader Type",type="string",JSONPath=".spec.uploaderType",description="Engine of the repository"
type PodVolumeRestore struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the volume and the snapshot.
	// +optional
	Spec PodVolumeRestoreSpec `json:"spec,omitempty"`

	// Status is written by the agent of the node.
	// +optional
	Status PodVolumeRestoreStatus `json:"status,omitempty"`
}

// PodVolumeRestoreList is a list of PodVolumeRestores.
//
// +kubebuilder:object:root=true
type PodVolumeRestoreList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the pod volume restores of the list.
	Items []PodVolumeRestore `json:"items"`
}

// PodVolumeRestoreSpec specifies a volume of a pod and the snapshot that it gets.
type PodVolumeRestoreSpec struct {
	// Pod is the pod with the volume.
	Pod ObjectReference `json:"pod"`

	// Volume is the name of the volume in the pod.
	Volume string `json:"volume"`

	// BackupStorageLocation is the name of the location with the repository.
	BackupStorageLocation string `json:"backupStorageLocation"`

	// RepoIdentifier identifies the repository for its engine.
	RepoIdentifier string `json:"repoIdentifier"`

	// UploaderType is the engine of the repository. Empty means kopia.
	// +optional
	UploaderType RepositoryType `json:"uploaderType"`

	// SnapshotID identifies the snapshot in the repository.
	SnapshotID string `json:"snapshotID"`

	// SourceNamespace is the namespace from which the volume was backed up.
	SourceNamespace string `json:"sourceNamespace"`

	// UploaderSettings are settings of the engine, e.g. WriteSparseFiles.
	// +optional
	// +nullable
	UploaderSettings map[string]string `json:"uploaderSettings,omitempty"`

	// Cancel requests that the restore ends. It cannot be taken back.
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// SnapshotSize is the size of the snapshot in bytes.
	// +optional
	SnapshotSize int64 `json:"snapshotSize,omitempty"`
}

// PodVolumeRestoreStatus is the state of a PodVolumeRestore.
type PodVolumeRestoreStatus struct {
	LoadStatus `json:",inline"`

	// Node is the name of the node on which the data is restored.
	// +optional
	Node string `json:"node,omitempty"`
}
