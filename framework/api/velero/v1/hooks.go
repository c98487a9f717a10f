package v1

// HookErrorMode specifies how the failure of a hook affects the backup or restore of its item.
//
// +kubebuilder:validation:Enum=Continue;Fail
type HookErrorMode string

const (
	// HookErrorModeContinue records the failure and continues with the item.
	HookErrorModeContinue HookErrorMode = "Continue"

	// HookErrorModeFail records the failure as an error of the item. The item is then not backed up;
	// in a restore, no other hook begins.
	HookErrorModeFail HookErrorMode = "Fail"
)

// HookStatus counts the hooks of a backup or restore.
type HookStatus struct {
	// HooksAttempted is the number of hooks that were started.
	// +optional
	HooksAttempted int `json:"hooksAttempted,omitempty"`

	// HooksFailed is the number of started hooks that failed.
	// +optional
	HooksFailed int `json:"hooksFailed,omitempty"`
}
