package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeleteBackupRequest requests the deletion of a backup with its files, its snapshots and its
// restores. The server deletes the request when the backup is deleted, or 24 hours after the
// creation of the request if there were errors.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=dbr
// +kubebuilder:printcolumn:name="BackupName",type="string",JSONPath=".spec.backupName",description="The backup to delete"
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the deletion"
type DeleteBackupRequest struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the backup to delete.
	// +optional
	Spec DeleteBackupRequestSpec `json:"spec,omitempty"`

	// Status is written by the server.
	// +optional
	Status DeleteBackupRequestStatus `json:"status,omitempty"`
}

// DeleteBackupRequestList is a list of DeleteBackupRequests.
//
// +kubebuilder:object:root=true
type DeleteBackupRequestList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the requests of the list.
	Items []DeleteBackupRequest `json:"items"`
}

// DeleteBackupRequestSpec specifies the backup to delete.
type DeleteBackupRequestSpec struct {
	// BackupName is the name of the Backup.
	BackupName string `json:"backupName"`
}

// DeleteBackupRequestStatus is the state of a deletion.
type DeleteBackupRequestStatus struct {
	// Phase is the state of the request. Empty means New.
	// +optional
	Phase DeleteBackupRequestPhase `json:"phase,omitempty"`

	// Errors are the errors of the deletion. If a Processed request has none, the backup is
	// deleted.
	// +optional
	// +nullable
	Errors []string `json:"errors,omitempty"`
}

// DeleteBackupRequestPhase is the state of a DeleteBackupRequest. The empty phase is the same as
// New.
//
// +kubebuilder:validation:Enum=New;InProgress;Processed
type DeleteBackupRequestPhase string

const (
	// DeleteBackupRequestPhaseNew is a request that no controller has processed.
	DeleteBackupRequestPhaseNew DeleteBackupRequestPhase = "New"

	// DeleteBackupRequestPhaseInProgress is a request whose backup is being deleted.
	DeleteBackupRequestPhaseInProgress DeleteBackupRequestPhase = "InProgress"

	// DeleteBackupRequestPhaseProcessed is a request whose processing has ended,
	// successfully or with status.errors.
	DeleteBackupRequestPhaseProcessed DeleteBackupRequestPhase = "Processed"
)
