package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BackupStorageLocation is a bucket, or a prefix in a bucket, in which backups are stored.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=bsl
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="Whether the location can be used: Available or Unavailable"
// +kubebuilder:printcolumn:name="Last Validated",type="date",JSONPath=".status.lastValidationTime",description="When the location was last validated"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Default",type="boolean",JSONPath=".spec.default",description="Whether this is the default location of backups"
type BackupStorageLocation struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the bucket and how it is used.
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

// BackupStorageLocationSpec specifies a bucket and how it is used.
type BackupStorageLocationSpec struct {
	// Provider is the name of the object store plugin, e.g. velero.io/aws. A name without a slash
	// means velero.io/NAME.
	Provider string `json:"provider"`

	// Config is passed to the object store plugin, which defines its keys.
	// +optional
	Config map[string]string `json:"config,omitempty"`

	// Credential is the Secret key with the credentials for the plugin. Absent means the
	// credentials in the server's environment.
	// +optional
	Credential *SecretKeySelector `json:"credential,omitempty"`

	StorageType `json:",inline"`

	// Default specifies whether this is the location of backups that name none. At most one
	// location of a namespace is the default; if there are several, the server resets this field in
	// all but the newest.
	// +optional
	Default bool `json:"default,omitempty"`

	// AccessMode specifies whether the server may write to the location. Empty means ReadWrite.
	// +optional
	AccessMode BackupStorageLocationAccessMode `json:"accessMode,omitempty"`

	// BackupSyncPeriod is the interval at which Backup objects are created in the cluster for backups
	// in the bucket. Zero
	// means never; absent means the server's default of one minute.
	// +optional
	// +nullable
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	BackupSyncPeriod *metav1.Duration `json:"backupSyncPeriod,omitempty"`

	// ValidationFrequency is the interval at which the location is validated. Zero means never; absent means
	// the server's default of one minute.
	// +optional
	// +nullable
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	ValidationFrequency *metav1.Duration `json:"validationFrequency,omitempty"`
}

// StorageType is the type of storage of a location. The only type is object storage.
type StorageType struct {
	// ObjectStorage is the bucket.
	ObjectStorage *ObjectStorageLocation `json:"objectStorage"`
}

// ObjectStorageLocation is a bucket, or a prefix in a bucket.
type ObjectStorageLocation struct {
	// Bucket is the name of the bucket.
	Bucket string `json:"bucket"`

	// Prefix is the path inside the bucket below which everything is stored. Empty means the
	// bucket's root.
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// CACert is a bundle of PEM certificates to trust in TLS connections to the object store. It
	// cannot be combined with caCertRef.
	// +optional
	CACert []byte `json:"caCert,omitempty"`

	// CACertRef is the Secret key with such a bundle. It cannot be combined with caCert.
	// +optional
	CACertRef *SecretKeySelector `json:"caCertRef,omitempty"`
}

// BackupStorageLocationAccessMode specifies whether the server may write to a location.
//
// +kubebuilder:validation:Enum=ReadOnly;ReadWrite
type BackupStorageLocationAccessMode string

const (
	// BackupStorageLocationAccessModeReadOnly is a location that backups are only restored from.
	BackupStorageLocationAccessModeReadOnly BackupStorageLocationAccessMode = "ReadOnly"

	// BackupStorageLocationAccessModeReadWrite is a location that backups are stored in and restored
	// from.
	BackupStorageLocationAccessModeReadWrite BackupStorageLocationAccessMode = "ReadWrite"
)

// BackupStorageLocationStatus is the observed state of a location.
type BackupStorageLocationStatus struct {
	// Phase is Available if the location can be used. Empty means that it was not validated yet.
	// +optional
	Phase BackupStorageLocationPhase `json:"phase,omitempty"`

	// LastSyncedTime is when the backups of the bucket were last synchronized to the cluster.
	// +optional
	// +nullable
	LastSyncedTime *metav1.Time `json:"lastSyncedTime,omitempty"`

	// LastValidationTime is when the location was last validated.
	// +optional
	// +nullable
	LastValidationTime *metav1.Time `json:"lastValidationTime,omitempty"`

	// Message is the reason why the location is Unavailable.
	// +optional
	Message string `json:"message,omitempty"`

	// LastSyncedRevision was used to detect changes of the bucket.
	//
	// Deprecated: the server preserves it but does not use it.
	// +optional
	LastSyncedRevision types.UID `json:"lastSyncedRevision,omitempty"`

	// AccessMode was used before spec.accessMode existed.
	//
	// Deprecated: the server preserves it but does not use it.
	// +optional
	AccessMode BackupStorageLocationAccessMode `json:"accessMode,omitempty"`
}

// BackupStorageLocationPhase is the state of a location. The server only uses locations that are
// Available.
//
// +kubebuilder:validation:Enum=Available;Unavailable
type BackupStorageLocationPhase string

const (
	// BackupStorageLocationPhaseAvailable is a location that passed its last validation.
	BackupStorageLocationPhaseAvailable BackupStorageLocationPhase = "Available"

	// BackupStorageLocationPhaseUnavailable is a location that failed its last validation.
	BackupStorageLocationPhaseUnavailable BackupStorageLocationPhase = "Unavailable"
)
