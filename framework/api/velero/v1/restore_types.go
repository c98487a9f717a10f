package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Restore asks for the objects and volumes of a backup to be brought back, and shows how far it is.
//
// +kubebuilder:object:root=true
type Restore struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what to restore and how.
	// +optional
	Spec RestoreSpec `json:"spec,omitempty"`

	// Status is written by the server.
	// +optional
	Status RestoreStatus `json:"status,omitempty"`
}

// RestoreList is a list of Restores.
//
// +kubebuilder:object:root=true
type RestoreList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the restores of the list.
	Items []Restore `json:"items"`
}

// RestoreSpec says what to restore and how. Exactly one of backupName and scheduleName is given.
type RestoreSpec struct {
	// BackupName is the name of the Backup to restore from. It excludes scheduleName.
	// +optional
	BackupName string `json:"backupName,omitempty"`

	// ScheduleName is the name of the Schedule whose newest Completed backup is restored. It
	// excludes backupName.
	// +optional
	ScheduleName string `json:"scheduleName,omitempty"`

	// IncludedNamespaces are the names or glob patterns of the namespaces to restore, as they were
	// named in the backup. Empty means all.
	// +optional
	// +nullable
	IncludedNamespaces []string `json:"includedNamespaces,omitempty"`

	// ExcludedNamespaces are the names or glob patterns of the namespaces to leave out.
	// +optional
	// +nullable
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty"`

	// IncludedResources are the resources to restore, as "*", a resource name or "resource.group".
	// Empty means all.
	// +optional
	// +nullable
	IncludedResources []string `json:"includedResources,omitempty"`

	// ExcludedResources are the resources to leave out. The server adds those that are never
	// restored.
	// +optional
	// +nullable
	ExcludedResources []string `json:"excludedResources,omitempty"`

	// NamespaceMapping maps namespaces of the backup to the namespaces to restore them into. A
	// namespace that is not in it keeps its name.
	// +optional
	NamespaceMapping map[string]string `json:"namespaceMapping,omitempty"`

	// LabelSelector limits the restore to objects that match it. It excludes orLabelSelectors.
	// +optional
	// +nullable
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// OrLabelSelectors limits the restore to objects that match at least one of the selectors. It
	// excludes labelSelector.
	// +optional
	// +nullable
	OrLabelSelectors []*metav1.LabelSelector `json:"orLabelSelectors,omitempty"`

	// RestorePVs says whether persistent volumes are restored from their snapshots. Absent means
	// yes.
	// +optional
	// +nullable
	RestorePVs *bool `json:"restorePVs,omitempty"`

	// RestoreStatus selects the resources whose status is restored too. Absent means none.
	// +optional
	// +nullable
	RestoreStatus *RestoreStatusSpec `json:"restoreStatus,omitempty"`

	// PreserveNodePorts says whether services keep the node ports that were assigned to them.
	// Absent means no.
	// +optional
	// +nullable
	PreserveNodePorts *bool `json:"preserveNodePorts,omitempty"`

	// IncludeClusterResources says whether cluster-scoped objects are restored. Absent means
	// automatic: all of them when no filter leaves out a namespace, otherwise those that belong to
	// a restored object.
	// +optional
	// +nullable
	IncludeClusterResources *bool `json:"includeClusterResources,omitempty"`

	// Hooks are commands and init containers to run in restored pods.
	// +optional
	Hooks RestoreHooks `json:"hooks,omitempty"`

	// ExistingResourcePolicy says what to do with an object that exists in the cluster and differs
	// from the one in the backup: none leaves it alone, update patches it. Empty means none.
	// +optional
	// +nullable
	ExistingResourcePolicy PolicyType `json:"existingResourcePolicy,omitempty"`

	// ItemOperationTimeout is how long an asynchronous operation of a plugin may take. Zero means
	// the server's default of 4 hours.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	ItemOperationTimeout metav1.Duration `json:"itemOperationTimeout,omitempty"`

	// ResourceModifier refers to the ConfigMap, in the namespace of the restore, with the rules by
	// which objects are changed before they are restored.
	// +optional
	// +nullable
	ResourceModifier *TypedLocalObjectReference `json:"resourceModifier,omitempty"`

	// UploaderConfig tunes the file system uploader.
	// +optional
	// +nullable
	UploaderConfig *UploaderConfigForRestore `json:"uploaderConfig,omitempty"`
}

// PolicyType says what a restore does with an object that exists already. It is checked by the
// server, not by the schema.
type PolicyType string

const (
	// PolicyTypeNone leaves an existing object as it is, with a warning when it differs.
	PolicyTypeNone PolicyType = "none"

	// PolicyTypeUpdate patches an existing object to what the backup holds.
	PolicyTypeUpdate PolicyType = "update"
)

// UploaderConfigForRestore tunes the file system uploader of a restore.
type UploaderConfigForRestore struct {
	// WriteSparseFiles says whether runs of zeros are written as holes.
	// +optional
	// +nullable
	WriteSparseFiles *bool `json:"writeSparseFiles,omitempty"`

	// ParallelFilesDownload is the number of files that are downloaded at once. Zero leaves it to
	// the uploader.
	// +optional
	ParallelFilesDownload int `json:"parallelFilesDownload,omitempty"`
}

// RestoreStatusSpec selects the resources whose status is restored.
type RestoreStatusSpec struct {
	// IncludedResources are the resources whose status is restored. "*" means all, empty none.
	// +optional
	// +nullable
	IncludedResources []string `json:"includedResources,omitempty"`

	// ExcludedResources are the resources whose status is not restored.
	// +optional
	// +nullable
	ExcludedResources []string `json:"excludedResources,omitempty"`
}

// RestoreHooks are the hooks of a restore.
type RestoreHooks struct {
	// Resources are the hooks, each with the selection of pods that it applies to.
	// +optional
	Resources []RestoreResourceHookSpec `json:"resources,omitempty"`
}

// RestoreResourceHookSpec is a set of hooks with the selection of pods that they apply to.
type RestoreResourceHookSpec struct {
	// Name of the hook, for logs and errors.
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

	// PostHooks run, in order, once the pod is restored.
	// +optional
	PostHooks []RestoreResourceHook `json:"postHooks,omitempty"`
}

// RestoreResourceHook is one hook of a restore: a command or init containers.
type RestoreResourceHook struct {
	// Exec runs a command in a container of the restored pod.
	// +optional
	Exec *ExecRestoreHook `json:"exec,omitempty"`

	// Init adds init containers to the pod.
	// +optional
	Init *InitRestoreHook `json:"init,omitempty"`
}

// ExecRestoreHook runs a command in a container of a restored pod.
type ExecRestoreHook struct {
	// Container to run the command in. Empty means the first container of the pod.
	// +optional
	Container string `json:"container,omitempty"`

	// Command and its arguments.
	// +kubebuilder:validation:MinItems=1
	Command []string `json:"command"`

	// OnError says whether a failing command ends the hooks of the pod. Empty means Continue.
	// +optional
	OnError HookErrorMode `json:"onError,omitempty"`

	// ExecTimeout is how long the command may run before it counts as failed. Zero means 30
	// seconds.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	ExecTimeout metav1.Duration `json:"execTimeout,omitempty"`

	// WaitTimeout is how long to wait for the container to run before the command is started.
	// Zero means for as long as it takes.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	WaitTimeout metav1.Duration `json:"waitTimeout,omitempty"`

	// WaitForReady says whether to wait until the container is ready, not only running. Absent
	// means no.
	// +optional
	// +nullable
	WaitForReady *bool `json:"waitForReady,omitempty"`
}

// InitRestoreHook adds init containers to a restored pod.
type InitRestoreHook struct {
	// InitContainers are pod containers, kept as they were given. They are put in front of the
	// pod's own init containers. Each has a name, an image and a command.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	InitContainers []runtime.RawExtension `json:"initContainers"`

	// Timeout is how long the init containers may take before they count as failed.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// RestoreStatus is how far a restore is and how it ended.
type RestoreStatus struct {
	// Phase is the state of the restore. Empty means New.
	// +optional
	Phase RestorePhase `json:"phase,omitempty"`

	// ValidationErrors are the reasons why the spec was refused.
	// +optional
	// +nullable
	ValidationErrors []string `json:"validationErrors,omitempty"`

	// Warnings is the number of warnings. Their text is in the restore's log and results.
	// +optional
	Warnings int `json:"warnings,omitempty"`

	// Errors is the number of errors. Their text is in the restore's log and results.
	// +optional
	Errors int `json:"errors,omitempty"`

	// FailureReason is the error that made the whole restore fail.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// StartTimestamp is when the restore was started, by the server's clock.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// CompletionTimestamp is when the restore ended, however it ended, by the server's clock.
	// +optional
	// +nullable
	CompletionTimestamp *metav1.Time `json:"completionTimestamp,omitempty"`

	// Progress counts the items of the restore while it runs.
	// +optional
	// +nullable
	Progress *RestoreProgress `json:"progress,omitempty"`

	// RestoreItemOperationsAttempted is the number of asynchronous operations that plugins started.
	// +optional
	RestoreItemOperationsAttempted int `json:"restoreItemOperationsAttempted,omitempty"`

	// RestoreItemOperationsCompleted is the number of those that ended well.
	// +optional
	RestoreItemOperationsCompleted int `json:"restoreItemOperationsCompleted,omitempty"`

	// RestoreItemOperationsFailed is the number of those that ended with an error.
	// +optional
	RestoreItemOperationsFailed int `json:"restoreItemOperationsFailed,omitempty"`

	// HookStatus counts the hooks of the restore.
	// +optional
	// +nullable
	HookStatus *HookStatus `json:"hookStatus,omitempty"`
}

// RestoreProgress counts the items of a running restore.
type RestoreProgress struct {
	// TotalItems is the number of items known so far. It grows when plugins add items.
	// +optional
	TotalItems int `json:"totalItems,omitempty"`

	// ItemsRestored is the number of items that were dealt with.
	// +optional
	ItemsRestored int `json:"itemsRestored,omitempty"`
}
