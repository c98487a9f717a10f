package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VolumeSnapshotLocation is a place where a volume snapshotter plugin keeps snapshots.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vsl
type VolumeSnapshotLocation struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is which plugin keeps the snapshots and how.
	// +optional
	Spec VolumeSnapshotLocationSpec `json:"spec,omitempty"`

	// Status is not used by the server; it is kept when found.
	// +optional
	Status VolumeSnapshotLocationStatus `json:"status,omitempty"`
}

// VolumeSnapshotLocationList is a list of VolumeSnapshotLocations.
//
// +kubebuilder:object:root=true
type VolumeSnapshotLocationList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the locations of the list.
	Items []VolumeSnapshotLocation `json:"items"`
}

// VolumeSnapshotLocationSpec says which plugin keeps snapshots and how.
type VolumeSnapshotLocationSpec struct {
	// Provider is the name of the volume snapshotter plugin, e.g. velero.io/aws. A name without a
	// slash is taken as velero.io/NAME.
	Provider string `json:"provider"`

	// Config is handed to the plugin, which defines its keys.
	// +optional
	Config map[string]string `json:"config,omitempty"`

	// Credential is the Secret key that holds the credentials for the plugin. Absent means those
	// of the server's environment.
	// +optional
	Credential *SecretKeySelector `json:"credential,omitempty"`
}

// VolumeSnapshotLocationStatus is what is known about a location.
type VolumeSnapshotLocationStatus struct {
	// Phase says whether the location can be used.
	// +optional
	Phase VolumeSnapshotLocationPhase `json:"phase,omitempty"`
}

// VolumeSnapshotLocationPhase says whether a location can be used.
//
// +kubebuilder:validation:Enum=Available;Unavailable
type VolumeSnapshotLocationPhase string

const (
	// VolumeSnapshotLocationPhaseAvailable is a location that can be used.
	VolumeSnapshotLocationPhaseAvailable VolumeSnapshotLocationPhase = "Available"

	// VolumeSnapshotLocationPhaseUnavailable is a location that cannot be used.
	VolumeSnapshotLocationPhaseUnavailable VolumeSnapshotLocationPhase = "Unavailable"
)
