package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodVolumeBackup requests the backup of one volume of a running pod from the file system of its node. It belongs to a
// Backup, and remains as long as that.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pvb
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the backup, e.g. InProgress"
// +kubebuilder:printcolumn:name="Started",type="date",JSONPath=".status.startTimestamp",description="When the movement of data began"
// +kubebuilder:printcolumn:name="Bytes Done",type="integer",format="int64",JSONPath=".status.progress.bytesDone",description="Bytes that were moved"
// +kubebuilder:printcolumn:name="Total Bytes",type="integer",format="int64",JSONPath=".status.progress.totalBytes",description="Bytes of the volume"
// +kubebuilder:printcolumn:name="Incremental Bytes",type="integer",format="int64",JSONPath=".status.incrementalBytes",description="Bytes that were not in the repository before",priority=10
// +kubebuilder:printcolumn:name="Storage Location",type="string",JSONPath=".spec.backupStorageLocation",description="The BackupStorageLocation with the repository"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.node",description="Always empty: spec.node is the node"
// +kubebuilder:printcolumn:name="Uploader",type="string",JSONPath=".spec.uploaderType",description="Engine of the repository"
type PodVolumeBackup struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the volume and where its data goes.
	// +optional
	Spec PodVolumeBackupSpec `json:"spec,omitempty"`

	// Status is written by the agent of the node.
	// +optional
	Status PodVolumeBackupStatus `json:"status,omitempty"`
}

// PodVolumeBackupList is a list of PodVolumeBackups.
//
// +kubebuilder:object:root=true
type PodVolumeBackupList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the pod volume backups of the list.
	Items []PodVolumeBackup `json:"items"`
}

// PodVolumeBackupSpec specifies a volume of a pod and where its data goes.
type PodVolumeBackupSpec struct {
	// Node is the name of the node on which the pod runs.
	Node string `json:"node"`

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

	// Tags are attached to the snapshot in the repository.
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// UploaderSettings are settings of the engine, e.g. ParallelFilesUpload.
	// +optional
	// +nullable
	UploaderSettings map[string]string `json:"uploaderSettings,omitempty"`

	// Cancel requests that the backup ends. It cannot be taken back.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
}

// PodVolumeBackupStatus is the state of a PodVolumeBackup.
type PodVolumeBackupStatus struct {
	LoadStatus `json:",inline"`

	// Path is the directory that was backed up, as the agent sees it.
	// +optional
	Path string `json:"path,omitempty"`

	// SnapshotID identifies the snapshot in the repository.
	// +optional
	SnapshotID string `json:"snapshotID,omitempty"`

	// IncrementalBytes is the number of bytes that were not in the repository before.
	// +optional
	IncrementalBytes int64 `json:"incrementalBytes,omitempty"`
}
