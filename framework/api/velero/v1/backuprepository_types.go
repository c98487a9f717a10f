package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupRepository is the repository with the data of the volumes of one namespace in one location.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=repo
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Repository Type",type="string",JSONPath=".spec.repositoryType"
type BackupRepository struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the repository.
	// +optional
	Spec BackupRepositorySpec `json:"spec,omitempty"`

	// Status is written by the server.
	// +optional
	Status BackupRepositoryStatus `json:"status,omitempty"`
}

// BackupRepositoryList is a list of BackupRepositories.
//
// +kubebuilder:object:root=true
type BackupRepositoryList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the repositories of the list.
	Items []BackupRepository `json:"items"`
}

// BackupRepositorySpec specifies a repository.
type BackupRepositorySpec struct {
	// VolumeNamespace is the namespace of the volumes.
	VolumeNamespace string `json:"volumeNamespace"`

	// BackupStorageLocation is the name of the location with the repository.
	BackupStorageLocation string `json:"backupStorageLocation"`

	// RepositoryType is the engine of the repository. Empty means kopia.
	// +optional
	RepositoryType RepositoryType `json:"repositoryType"`

	// ResticIdentifier is the repository as the restic program names it.
	// +optional
	ResticIdentifier string `json:"resticIdentifier,omitempty"`

	// MaintenanceFrequency is the interval at which the repository is maintained.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	MaintenanceFrequency metav1.Duration `json:"maintenanceFrequency"`

	// RepositoryConfig are settings of the engine, e.g. cacheLimitMB.
	// +optional
	// +nullable
	RepositoryConfig map[string]string `json:"repositoryConfig,omitempty"`
}

// RepositoryType is the engine of a repository. The empty type is kopia.
//
// +kubebuilder:validation:Enum=kopia;restic;""
type RepositoryType string

const (
	// RepositoryTypeKopia is a repository that the kopia library has written.
	RepositoryTypeKopia RepositoryType = "kopia"

	// RepositoryTypeRestic is a repository that the restic program has written.
	RepositoryTypeRestic RepositoryType = "restic"
)

// BackupRepositoryStatus is the state of a repository.
type BackupRepositoryStatus struct {
	// Phase is the state of the repository. Empty means New.
	// +optional
	Phase BackupRepositoryPhase `json:"phase,omitempty"`

	// Message is the reason why the repository is NotReady, or says that it was created again.
	// +optional
	Message string `json:"message,omitempty"`

	// LastMaintenanceTime is when the repository was last maintained successfully, or else created.
	// +optional
	// +nullable
	LastMaintenanceTime *metav1.Time `json:"lastMaintenanceTime,omitempty"`

	// RecentMaintenance are the last runs of maintenance, the oldest first.
	// +optional
	RecentMaintenance []BackupRepositoryMaintenanceStatus `json:"recentMaintenance,omitempty"`
}

// BackupRepositoryPhase is the state of a BackupRepository. The empty phase is the same as New.
//
// +kubebuilder:validation:Enum=New;Ready;NotReady
type BackupRepositoryPhase string

const (
	// BackupRepositoryPhaseNew is a repository that no server has opened.
	BackupRepositoryPhaseNew BackupRepositoryPhase = "New"

	// BackupRepositoryPhaseReady is a repository that can be used.
	BackupRepositoryPhaseReady BackupRepositoryPhase = "Ready"

	// BackupRepositoryPhaseNotReady is a repository that cannot be used because of status.message.
	BackupRepositoryPhaseNotReady BackupRepositoryPhase = "NotReady"
)

// BackupRepositoryMaintenanceStatus is one run of maintenance.
type BackupRepositoryMaintenanceStatus struct {
	// Result says whether the run was successful.
	// +optional
	Result BackupRepositoryMaintenanceResult `json:"result,omitempty"`

	// StartTimestamp is when the run began.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// CompleteTimestamp is when the run ended.
	// +optional
	// +nullable
	CompleteTimestamp *metav1.Time `json:"completeTimestamp,omitempty"`

	// Message says why the run has failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// BackupRepositoryMaintenanceResult is the result of a run of maintenance.
//
// +kubebuilder:validation:Enum=Succeeded;Failed
type BackupRepositoryMaintenanceResult string

const (
	// BackupRepositoryMaintenanceSucceeded is a run that was successful.
	BackupRepositoryMaintenanceSucceeded BackupRepositoryMaintenanceResult = "Succeeded"

	// BackupRepositoryMaintenanceFailed is a run that failed with its message.
	BackupRepositoryMaintenanceFailed BackupRepositoryMaintenanceResult = "Failed"
)
