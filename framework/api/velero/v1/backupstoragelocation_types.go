package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BackupStorageLocation is a bucket, or a prefix in one, that holds backups.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=bsl
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="Whether the location can be used: Available or Unavailable"
// +kubebuilder:printcolumn:name="Last Validated",type="date",JSONPath=".status.lastValidationTime",description="When the location was last validated"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Default",type="boolean",JSONPath=".spec.default",description="Whether backups that name no location go here"
type BackupStorageLocation struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is where the bucket is and how it is used.
	// +optional
	Spec BackupStorageLocationSpec `json:"spec,omitempty"`

	// Status is written by the server.
	// +optional
	Status BackupStorageLocationStatus `json:"status,omitempty"`
}

// BackupStorageLocationList is a list of BackupStorageLocations.
//
// +kubebuilder:object:root=true
type BackupStorageLocationList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the locations of the list.
	Items []BackupStorageLocation `json:"items"`
}

// BackupStorageLocationSpec says where a bucket is and how it is used.
type BackupStorageLocationSpec struct {
	// Provider is the name of the object store plugin, e.g. velero.io/aws. A name without a slash
	// is taken as velero.io/NAME.
	Provider string `json:"provider"`

	// Config is handed to the object store plugin, which defines its keys.
	// +optional
	Config map[string]string `json:"config,omitempty"`

	// Credential is the Secret key that holds the credentials for the plugin. Absent means those
	// of the server's environment.
	// +optional
	Credential *SecretKeySelector `json:"credential,omitempty"`

	StorageType `json:",inline"`

	// Default says whether backups that name no location go here. At most one location of a
	// namespace is the default; the server takes the mark off all but the newest.
	// +optional
	Default bool `json:"default,omitempty"`

	// AccessMode says whether the server may write to the location. Empty means ReadWrite.
	// +optional
	AccessMode BackupStorageLocationAccessMode `json:"accessMode,omitempty"`

	// BackupSyncPeriod is how often Backups found in the bucket are created in the cluster. Zero
	// means never; absent means the server's default of one minute.
	// +optional
	// +nullable
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	BackupSyncPeriod *metav1.Duration `json:"backupSyncPeriod,omitempty"`

	// ValidationFrequency is how often the location is validated. Zero means never; absent means
	// the server's default of one minute.
	// +optional
	// +nullable
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	ValidationFrequency *metav1.Duration `json:"validationFrequency,omitempty"`
}

// StorageType is the kind of storage behind a location, of which object storage is the only one.
type StorageType struct {
	// ObjectStorage is the bucket.
	ObjectStorage *ObjectStorageLocation `json:"objectStorage"`
}

// ObjectStorageLocation is a bucket, or a prefix in one.
type ObjectStorageLocation struct {
	// Bucket is the name of the bucket.
	Bucket string `json:"bucket"`

	// Prefix is the path inside the bucket below which everything is stored. Empty means the
	// bucket's root.
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// CACert is a bundle of PEM certificates to trust in TLS connections to the object store. It
	// excludes caCertRef.
	// +optional
	CACert []byte `json:"caCert,omitempty"`

	// CACertRef is the Secret key that holds such a bundle. It excludes caCert.
	// +optional
	CACertRef *SecretKeySelector `json:"caCertRef,omitempty"`
}

// BackupStorageLocationAccessMode says whether the server may write to a location.
//
// +kubebuilder:validation:Enum=ReadOnly;ReadWrite
type BackupStorageLocationAccessMode string

const (
	// BackupStorageLocationAccessModeReadOnly is a location that is only restored from.
	BackupStorageLocationAccessModeReadOnly BackupStorageLocationAccessMode = "ReadOnly"

	// BackupStorageLocationAccessModeReadWrite is a location that is backed up to and restored
	// from.
	BackupStorageLocationAccessModeReadWrite BackupStorageLocationAccessMode = "ReadWrite"
)

// BackupStorageLocationStatus is what the server found out about a location.
type BackupStorageLocationStatus struct {
	// Phase says whether the location can be used. Empty means that it was not validated yet.
	// +optional
	Phase BackupStorageLocationPhase `json:"phase,omitempty"`

	// LastSyncedTime is when the backups of the bucket were last brought into the cluster.
	// +optional
	// +nullable
	LastSyncedTime *metav1.Time `json:"lastSyncedTime,omitempty"`

	// LastValidationTime is when the location was last validated.
	// +optional
	// +nullable
	LastValidationTime *metav1.Time `json:"lastValidationTime,omitempty"`

	// Message says why the location is Unavailable.
	// +optional
	Message string `json:"message,omitempty"`

	// LastSyncedRevision is a former marker of the bucket's state.
	//
	// Deprecated: it is kept when found, and never read.
	// +optional
	LastSyncedRevision types.UID `json:"lastSyncedRevision,omitempty"`

	// AccessMode is a former place of spec.accessMode.
	//
	// Deprecated: it is kept when found, and never read.
	// +optional
	AccessMode BackupStorageLocationAccessMode `json:"accessMode,omitempty"`
}

// BackupStorageLocationPhase says whether a location can be used. Only a location that is exactly
// Available is used.
//
// +kubebuilder:validation:Enum=Available;Unavailable
type BackupStorageLocationPhase string

const (
	// BackupStorageLocationPhaseAvailable is a location that passed its last validation.
	BackupStorageLocationPhaseAvailable BackupStorageLocationPhase = "Available"

	// BackupStorageLocationPhaseUnavailable is a location that failed its last validation.
	BackupStorageLocationPhaseUnavailable BackupStorageLocationPhase = "Unavailable"
)
