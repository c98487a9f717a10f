package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VolumeSnapshotLocation configures a volume snapshotter plugin and where it stores snapshots.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vsl
type VolumeSnapshotLocation struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the plugin and its configuration.
	// +optional
	Spec VolumeSnapshotLocationSpec `json:"spec,omitempty"`

	// Status is not used by the server, which preserves it.
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

// VolumeSnapshotLocationSpec specifies a plugin and its configuration.
type VolumeSnapshotLocationSpec struct {
	// Provider is the name of the volume snapshotter plugin, e.g. velero.io/aws. A name without a
	// slash means velero.io/NAME.
	Provider string `json:"provider"`

	// Config is passed to the plugin, which defines its keys.
	// +optional
	Config map[string]string `json:"config,omitempty"`

	// Credential is the Secret key with the credentials for the plugin. Absent means the
	// credentials in the server's environment.
	// +optional
	Credential *SecretKeySelector `json:"credential,omitempty"`
}

// VolumeSnapshotLocationStatus is the observed state of a location.
type VolumeSnapshotLocationStatus struct {
	// Phase is Available if the location can be used.
	// +optional
	Phase VolumeSnapshotLocationPhase `json:"phase,omitempty"`
}

// VolumeSnapshotLocationPhase is the state of a location.
//
// +kubebuilder:validation:Enum=Available;Unavailable
type VolumeSnapshotLocationPhase string

const (
	// VolumeSnapshotLocationPhaseAvailable is a location that can be used.
	VolumeSnapshotLocationPhaseAvailable VolumeSnapshotLocationPhase = "Available"

	// VolumeSnapshotLocationPhaseUnavailable is a location that cannot be used.
	VolumeSnapshotLocationPhaseUnavailable VolumeSnapshotLocationPhase = "Unavailable"
)
