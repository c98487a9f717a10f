package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Backup requests a backup of selected cluster objects and volumes, and has its progress and result.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=bak
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the backup"
// +kubebuilder:printcolumn:name="Queue",type="integer",JSONPath=".status.queuePosition",description="Position in the queue while the backup is queued"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Backup struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec defines what is backed up, where it is stored and how. When the backup starts, the server
	// sets the fields to which it applied defaults.
	// +optional
	Spec BackupSpec `json:"spec,omitempty"`

	// Status is written by the server.
	// +optional
	Status BackupStatus `json:"status,omitempty"`
}

// BackupList is a list of Backups.
//
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the backups of the list.
	Items []Backup `json:"items"`
}

// Metadata is the object metadata in a backup template.
type Metadata struct {
	// Labels are set on every Backup that a Schedule creates from the template, instead of the
	// labels of the Schedule.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations are set on every Backup that a Schedule creates from the template, in addition to the
	// annotations of the Schedule, of which they replace those with the same key.
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`
}

// BackupSpec defines what is backed up, where it is stored and how.
//
// There are two families of resource filters: includedResources, excludedResources and
// includeClusterResources, and the four lists whose names contain a scope. A spec that uses both
// families fails validation.
type BackupSpec struct {
	// Metadata is set on the Backups that a Schedule creates with this spec as its template.
	// +optional
	Metadata Metadata `json:"metadata,omitempty"`

	// IncludedNamespaces are the names or glob patterns of the namespaces to back up. Empty means
	// all; the server then sets it to "*".
	// +optional
	// +nullable
	IncludedNamespaces []string `json:"includedNamespaces,omitempty"`

	// ExcludedNamespaces are the names or glob patterns of the namespaces to exclude.
	// +optional
	// +nullable
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty"`

	// IncludedResources are the resources to back up, of either scope, as "*", a resource name or
	// "resource.group". Empty means all.
	// +optional
	// +nullable
	IncludedResources []string `json:"includedResources,omitempty"`

	// ExcludedResources are the resources to exclude, of either scope.
	// +optional
	// +nullable
	ExcludedResources []string `json:"excludedResources,omitempty"`

	// IncludedClusterScopedResources are the cluster-scoped resources to back up. "*" means all;
	// empty means only those that belong to a namespaced object of the backup.
	// +optional
	// +nullable
	IncludedClusterScopedResources []string `json:"includedClusterScopedResources,omitempty"`

	// ExcludedClusterScopedResources are the cluster-scoped resources to exclude. "*" means all.
	// +optional
	// +nullable
	ExcludedClusterScopedResources []string `json:"excludedClusterScopedResources,omitempty"`

	// IncludedNamespaceScopedResources are the namespaced resources to back up. Empty means all.
	// +optional
	// +nullable
	IncludedNamespaceScopedResources []string `json:"includedNamespaceScopedResources,omitempty"`

	// ExcludedNamespaceScopedResources are the namespaced resources to exclude. "*" means all.
	// +optional
	// +nullable
	ExcludedNamespaceScopedResources []string `json:"excludedNamespaceScopedResources,omitempty"`

	// LabelSelector limits the backup to matching objects. It cannot be combined with orLabelSelectors.
	// +optional
	// +nullable
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// OrLabelSelectors limits the backup to objects that match at least one of the selectors. It
	// excludes labelSelector.
	// +optional
	// +nullable
	OrLabelSelectors []*metav1.LabelSelector `json:"orLabelSelectors,omitempty"`

	// SnapshotVolumes specifies whether snapshots of persistent volumes are taken. Absent means
	// that they are taken where a snapshot location or a CSI driver is available.
	// +optional
	// +nullable
	SnapshotVolumes *bool `json:"snapshotVolumes,omitempty"`

	// TTL is how long the backup is kept after its start, as a duration such as 720h0m0s. Zero
	// means the server's default, which is 30 days unless configured.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	TTL metav1.Duration `json:"ttl,omitempty"`

	// VolumeGroupSnapshotLabelKey is the label by which volume claims are grouped into one
	// snapshot. Empty means the server's default, velero.io/volume-group.
	// +optional
	VolumeGroupSnapshotLabelKey string `json:"volumeGroupSnapshotLabelKey,omitempty"`

	// IncludeClusterResources specifies whether cluster-scoped objects are backed up. If it is
	// absent, all of them are included in a backup of all namespaces, and otherwise those that
	// belong to a namespaced object of the backup.
	// +optional
	// +nullable
	IncludeClusterResources *bool `json:"includeClusterResources,omitempty"`

	// Hooks are commands that run in pods before and after they are backed up.
	// +optional
	Hooks BackupHooks `json:"hooks,omitempty"`

	// StorageLocation is the name of the BackupStorageLocation in which the backup is stored. Empty means
	// the default location.
	// +optional
	StorageLocation string `json:"storageLocation,omitempty"`

	// VolumeSnapshotLocations are the names of the VolumeSnapshotLocations to use, at most one for
	// each provider. The server adds the default of every provider that is not named.
	// +optional
	VolumeSnapshotLocations []string `json:"volumeSnapshotLocations,omitempty"`

	// DefaultVolumesToRestic is the former name of defaultVolumesToFsBackup.
	//
	// Deprecated: use defaultVolumesToFsBackup. If this is true, the server sets that to true.
	// +optional
	// +nullable
	DefaultVolumesToRestic *bool `json:"defaultVolumesToRestic,omitempty"`

	// DefaultVolumesToFsBackup specifies whether pod volumes are backed up from the file system
	// unless a pod's annotations differ. Absent means the server's setting.
	// +optional
	// +nullable
	DefaultVolumesToFsBackup *bool `json:"defaultVolumesToFsBackup,omitempty"`

	// OrderedResources maps a plural resource name to the objects that are backed up first, in
	// order, as a comma-separated list of "namespace/name", or of "name" for
	// cluster-scoped objects.
	// +optional
	// +nullable
	OrderedResources map[string]string `json:"orderedResources,omitempty"`

	// CSISnapshotTimeout is how long to wait for a CSI snapshot to get a handle. Zero means the
	// server's default of 10 minutes.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	CSISnapshotTimeout metav1.Duration `json:"csiSnapshotTimeout,omitempty"`

	// ItemOperationTimeout is how long an asynchronous operation of a plugin may take. Zero means
	// the server's default of 4 hours.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	ItemOperationTimeout metav1.Duration `json:"itemOperationTimeout,omitempty"`

	// ResourcePolicy refers to the ConfigMap, in the namespace of the backup, that holds resource
	// policies. Its kind is compared with "configmap" regardless of case.
	// +optional
	ResourcePolicy *TypedLocalObjectReference `json:"resourcePolicy,omitempty"`

	// SnapshotMoveData specifies whether the data of snapshots is moved to the backup storage. Absent
	// means the server's setting.
	// +optional
	// +nullable
	SnapshotMoveData *bool `json:"snapshotMoveData,omitempty"`

	// DataMover is the name of the data mover that moves snapshot data. Empty and "velero" both mean
	// the built-in one.
	// +optional
	DataMover string `json:"datamover,omitempty"`

	// UploaderConfig tunes the file system uploader.
	// +optional
	// +nullable
	UploaderConfig *UploaderConfigForBackup `json:"uploaderConfig,omitempty"`

	// BackupType specifies whether the data of volumes is uploaded in full, or only what has changed.
	// Empty means Incremental. Data movers upload what has changed only, so Full is a warning of the
	// backup.
	// +optional
	BackupType BackupType `json:"backupType,omitempty"`
}

// BackupType specifies how much of the data of volumes a backup uploads.
//
// +kubebuilder:validation:Enum=Full;Incremental
type BackupType string

const (
	// BackupTypeFull uploads all data.
	BackupTypeFull BackupType = "Full"

	// BackupTypeIncremental uploads the data that the backups before do not have.
	BackupTypeIncremental BackupType = "Incremental"
)

// UploaderConfigForBackup tunes the file system uploader of a backup.
type UploaderConfigForBackup struct {
	// ParallelFilesUpload is the number of files that are uploaded at once. Zero means the
	// uploader's default.
	// +optional
	ParallelFilesUpload int `json:"parallelFilesUpload,omitempty"`
}

// BackupHooks are the hooks of a backup.
type BackupHooks struct {
	// Resources are the hooks, each with the selection of pods that it applies to.
	// +optional
	// +nullable
	Resources []BackupResourceHookSpec `json:"resources,omitempty"`
}

// BackupResourceHookSpec is a set of hooks with the selection of pods that they apply to.
type BackupResourceHookSpec struct {
	// Name is the name of the hook in logs and errors.
	Name string `json:"name"`

	// IncludedNamespaces are the namespaces that the hooks apply to. Empty means all.
	// +optional
	// +nullable
	IncludedNamespaces []string `json:"includedNamespaces,omitempty"`

	// ExcludedNamespaces are the namespaces that the hooks do not apply to.
	// +optional
	// +nullable
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty"`

	// IncludedResources are the resources that the hooks apply to. Empty means all.
	// +optional
	// +nullable
	IncludedResources []string `json:"includedResources,omitempty"`

	// ExcludedResources are the resources that the hooks do not apply to.
	// +optional
	// +nullable
	ExcludedResources []string `json:"excludedResources,omitempty"`

	// LabelSelector limits the hooks to objects that match it.
	// +optional
	// +nullable
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// PreHooks run, in order, before the pod and its additional items are backed up.
	// +optional
	PreHooks []BackupResourceHook `json:"pre,omitempty"`

	// PostHooks run, in order, after the pod and its additional items are backed up.
	// +optional
	PostHooks []BackupResourceHook `json:"post,omitempty"`
}

// BackupResourceHook is one hook of a backup.
type BackupResourceHook struct {
	// Exec runs a command in a container of the pod.
	Exec *ExecHook `json:"exec"`
}

// ExecHook runs a command in a container of a pod.
type ExecHook struct {
	// Container is the name of the container in which the command runs. Empty means the first container of the pod.
	// +optional
	Container string `json:"container,omitempty"`

	// Command is the command with its arguments.
	// +kubebuilder:validation:MinItems=1
	Command []string `json:"command"`

	// OnError specifies whether the pod is still backed up if the command fails. Empty means Fail.
	// +optional
	OnError HookErrorMode `json:"onError,omitempty"`

	// Timeout is how long the command may run before it is considered failed. Zero means 30 seconds.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// BackupStatus is the progress and the result of a backup.
type BackupStatus struct {
	// Version is the major version of the backup's format, always 1.
	//
	// Deprecated: read formatVersion.
	// +optional
	Version int `json:"version,omitempty"`

	// FormatVersion is the version of the backup's archive format, e.g. 1.1.0.
	// +optional
	FormatVersion string `json:"formatVersion,omitempty"`

	// Expiration is when the backup may be garbage-collected.
	// +optional
	// +nullable
	Expiration *metav1.Time `json:"expiration,omitempty"`

	// Phase is the state of the backup. Empty means New.
	// +optional
	Phase BackupPhase `json:"phase,omitempty"`

	// QueuePosition is the position of a Queued backup in the queue, counted from 1. It is absent in
	// all other phases.
	// +optional
	QueuePosition int `json:"queuePosition,omitempty"`

	// ValidationErrors are the reasons why the spec is not valid.
	// +optional
	// +nullable
	ValidationErrors []string `json:"validationErrors,omitempty"`

	// StartTimestamp is when the backup was started, according to the server's clock. It is later
	// than its creation if the backup was queued.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// CompletionTimestamp is when the backup ended, with any result, according to the server's
	// clock.
	// +optional
	// +nullable
	CompletionTimestamp *metav1.Time `json:"completionTimestamp,omitempty"`

	// VolumeSnapshotsAttempted is the number of volume snapshots that volume snapshotter plugins
	// attempted.
	// +optional
	VolumeSnapshotsAttempted int `json:"volumeSnapshotsAttempted,omitempty"`

	// VolumeSnapshotsCompleted is the number of those that succeeded.
	// +optional
	VolumeSnapshotsCompleted int `json:"volumeSnapshotsCompleted,omitempty"`

	// FailureReason is the error because of which the backup failed.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// Warnings is the number of warnings. Their texts are in the backup's log and results.
	// +optional
	Warnings int `json:"warnings,omitempty"`

	// Errors is the number of errors. Their texts are in the backup's log and results.
	// +optional
	Errors int `json:"errors,omitempty"`

	// Progress counts the items of the backup while it runs.
	// +optional
	// +nullable
	Progress *BackupProgress `json:"progress,omitempty"`

	// CSIVolumeSnapshotsAttempted is the number of CSI volume snapshots that were attempted.
	// +optional
	CSIVolumeSnapshotsAttempted int `json:"csiVolumeSnapshotsAttempted,omitempty"`

	// CSIVolumeSnapshotsCompleted is the number of those that succeeded.
	// +optional
	CSIVolumeSnapshotsCompleted int `json:"csiVolumeSnapshotsCompleted,omitempty"`

	// BackupItemOperationsAttempted is the number of asynchronous operations that plugins started.
	// +optional
	BackupItemOperationsAttempted int `json:"backupItemOperationsAttempted,omitempty"`

	// BackupItemOperationsCompleted is the number of those that succeeded.
	// +optional
	BackupItemOperationsCompleted int `json:"backupItemOperationsCompleted,omitempty"`

	// BackupItemOperationsFailed is the number of those that failed.
	// +optional
	BackupItemOperationsFailed int `json:"backupItemOperationsFailed,omitempty"`

	// HookStatus counts the hooks of the backup.
	// +optional
	// +nullable
	HookStatus *HookStatus `json:"hookStatus,omitempty"`
}

// BackupProgress counts the items of a running backup.
type BackupProgress struct {
	// TotalItems is the number of items known so far. It grows when plugins add items.
	// +optional
	TotalItems int `json:"totalItems,omitempty"`

	// ItemsBackedUp is the number of items that are in the archive.
	// +optional
	ItemsBackedUp int `json:"itemsBackedUp,omitempty"`
}
