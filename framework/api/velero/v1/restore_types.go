package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Restore requests that objects and volumes of a backup are restored, and has its progress and result.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=rst
// +kubebuilder:printcolumn:name="Backup",type="string",JSONPath=".spec.backupName",description="The backup that is restored"
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the restore"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Restore struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec defines what is restored and how.
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

// RestoreSpec defines what is restored and how. Exactly one of backupName and scheduleName must be
// set.
type RestoreSpec struct {
	// BackupName is the name of the Backup to restore from. It cannot be combined with scheduleName.
	// +optional
	BackupName string `json:"backupName,omitempty"`

	// ScheduleName is the name of the Schedule whose newest Completed backup is restored. It
	// cannot be combined with backupName.
	// +optional
	ScheduleName string `json:"scheduleName,omitempty"`

	// IncludedNamespaces are the names or glob patterns of the namespaces to restore, with their
	// names in the backup. Empty means all.
	// +optional
	// +nullable
	IncludedNamespaces []string `json:"includedNamespaces,omitempty"`

	// ExcludedNamespaces are the names or glob patterns of the namespaces to exclude.
	// +optional
	// +nullable
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty"`

	// IncludedResources are the resources to restore, as "*", a resource name or "resource.group".
	// Empty means all.
	// +optional
	// +nullable
	IncludedResources []string `json:"includedResources,omitempty"`

	// ExcludedResources are the resources to exclude. The server adds those that are never
	// restored.
	// +optional
	// +nullable
	ExcludedResources []string `json:"excludedResources,omitempty"`

	// NamespaceMapping maps namespaces of the backup to the namespaces to restore them into. Other
	// namespaces keep their names.
	// +optional
	NamespaceMapping map[string]string `json:"namespaceMapping,omitempty"`

	// LabelSelector limits the restore to matching objects. It cannot be combined with orLabelSelectors.
	// +optional
	// +nullable
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// OrLabelSelectors limits the restore to objects that match at least one of the selectors. It
	// excludes labelSelector.
	// +optional
	// +nullable
	OrLabelSelectors []*metav1.LabelSelector `json:"orLabelSelectors,omitempty"`

	// RestorePVs specifies whether persistent volumes are restored from their snapshots. Absent
	// means true.
	// +optional
	// +nullable
	RestorePVs *bool `json:"restorePVs,omitempty"`

	// RestoreStatus selects the resources whose status is restored too. Absent means none.
	// +optional
	// +nullable
	RestoreStatus *RestoreStatusSpec `json:"restoreStatus,omitempty"`

	// PreserveNodePorts specifies whether services keep the node ports that were assigned to them.
	// Absent means false.
	// +optional
	// +nullable
	PreserveNodePorts *bool `json:"preserveNodePorts,omitempty"`

	// IncludeClusterResources specifies whether cluster-scoped objects are restored. If it is absent,
	// all of them are restored unless a filter excludes a namespace, and otherwise those that belong
	// to a restored object.
	// +optional
	// +nullable
	IncludeClusterResources *bool `json:"includeClusterResources,omitempty"`

	// Hooks are commands and init containers that run in restored pods.
	// +optional
	Hooks RestoreHooks `json:"hooks,omitempty"`

	// ExistingResourcePolicy specifies what happens to an object that exists in the cluster and
	// differs from the one in the backup: none leaves it unchanged, update patches it. Empty means
	// none.
	// +optional
	// +nullable
	ExistingResourcePolicy PolicyType `json:"existingResourcePolicy,omitempty"`

	// ItemOperationTimeout is how long an asynchronous operation of a plugin may take. Zero means
	// the server's default of 4 hours.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	ItemOperationTimeout metav1.Duration `json:"itemOperationTimeout,omitempty"`

	// ResourceModifier refers to the ConfigMap, in the namespace of the restore, with the rules that
	// change objects before they are restored.
	// +optional
	// +nullable
	ResourceModifier *TypedLocalObjectReference `json:"resourceModifier,omitempty"`

	// SkipDefaultResourceModifier specifies that the rules which the server applies to all restores
	// without a ResourceModifier do not apply to this one.
	// +optional
	// +nullable
	SkipDefaultResourceModifier *bool `json:"skipDefaultResourceModifier,omitempty"`

	// ResourcePolicy refers to the ConfigMap, in the namespace of the restore, with filters per namespace
	// and kind: namespacedFilterPolicies and clusterScopedFilterPolicy.
	// +optional
	// +nullable
	ResourcePolicy *TypedLocalObjectReference `json:"resourcePolicy,omitempty"`

	// UploaderConfig tunes the file system uploader.
	// +optional
	// +nullable
	UploaderConfig *UploaderConfigForRestore `json:"uploaderConfig,omitempty"`
}

// TargetNamespace returns the namespace into which the objects of a namespace of the backup are restored. Objects
// outside of namespaces, whose namespace is "", stay there.
func (s *RestoreSpec) TargetNamespace(namespace string) string {
	if mapped, ok := s.NamespaceMapping[namespace]; ok && namespace != "" {
		return mapped
	}
	return namespace
}

// PolicyType specifies what a restore does with an object that already exists. The server validates
// it, not the schema.
type PolicyType string

const (
	// PolicyTypeNone leaves an existing object unchanged, with a warning if it differs.
	PolicyTypeNone PolicyType = "none"

	// PolicyTypeUpdate patches an existing object to match the backup.
	PolicyTypeUpdate PolicyType = "update"
)

// UploaderConfigForRestore tunes the file system uploader of a restore.
type UploaderConfigForRestore struct {
	// WriteSparseFiles specifies whether runs of zeros are written as holes.
	// +optional
	// +nullable
	WriteSparseFiles *bool `json:"writeSparseFiles,omitempty"`

	// ParallelFilesDownload is the number of files that are downloaded at once. Zero means the
	// uploader's default.
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

	// PostHooks run, in order, after the pod is restored.
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
	// Container is the name of the container in which the command runs. Empty means the first container of the pod.
	// +optional
	Container string `json:"container,omitempty"`

	// Command is the command with its arguments.
	// +kubebuilder:validation:MinItems=1
	Command []string `json:"command"`

	// OnError specifies whether other hooks of the restore still begin if the command fails. Empty means
	// Continue.
	// +optional
	OnError HookErrorMode `json:"onError,omitempty"`

	// ExecTimeout is how long the command may run before it is considered failed. Zero means 30
	// seconds.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	ExecTimeout metav1.Duration `json:"execTimeout,omitempty"`

	// WaitTimeout is how long to wait for the container to run before the command is started.
	// Zero means no limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	WaitTimeout metav1.Duration `json:"waitTimeout,omitempty"`

	// WaitForReady specifies whether to wait until the container is ready and not only running.
	// Absent means false.
	// +optional
	// +nullable
	WaitForReady *bool `json:"waitForReady,omitempty"`
}

// InitRestoreHook adds init containers to a restored pod.
type InitRestoreHook struct {
	// InitContainers are pod containers, which are used unchanged. They are inserted before the
	// pod's own init containers. Each has a name, an image and a command.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	InitContainers []runtime.RawExtension `json:"initContainers"`

	// Timeout is how long the init containers may take before they are considered failed.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// RestoreStatus is the progress and the result of a restore.
type RestoreStatus struct {
	// Phase is the state of the restore. Empty means New.
	// +optional
	Phase RestorePhase `json:"phase,omitempty"`

	// ValidationErrors are the reasons why the spec is not valid.
	// +optional
	// +nullable
	ValidationErrors []string `json:"validationErrors,omitempty"`

	// Warnings is the number of warnings. Their texts are in the restore's log and results.
	// +optional
	Warnings int `json:"warnings,omitempty"`

	// Errors is the number of errors. Their texts are in the restore's log and results.
	// +optional
	Errors int `json:"errors,omitempty"`

	// FailureReason is the error because of which the restore failed.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// StartTimestamp is when the restore was started, according to the server's clock.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// CompletionTimestamp is when the restore ended, with any result, according to the server's
	// clock.
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

	// RestoreItemOperationsCompleted is the number of those that succeeded.
	// +optional
	RestoreItemOperationsCompleted int `json:"restoreItemOperationsCompleted,omitempty"`

	// RestoreItemOperationsFailed is the number of those that failed.
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

	// ItemsRestored is the number of items that were processed.
	// +optional
	ItemsRestored int `json:"itemsRestored,omitempty"`
}
