package v1

// HookErrorMode says what the failure of a hook does to the backup or restore of its item.
//
// +kubebuilder:validation:Enum=Continue;Fail
type HookErrorMode string

const (
	// HookErrorModeContinue records the failure and goes on with the item.
	HookErrorModeContinue HookErrorMode = "Continue"

	// HookErrorModeFail makes the failure an error of the item, which is then not backed up, or
	// whose remaining hooks are not run on restore.
	HookErrorModeFail HookErrorMode = "Fail"
)

// HookStatus counts the hooks of a backup or restore.
type HookStatus struct {
	// HooksAttempted is the number of hooks that were started.
	// +optional
	HooksAttempted int `json:"hooksAttempted,omitempty"`

	// HooksFailed is the number of started hooks that ended with an error.
	// +optional
	HooksFailed int `json:"hooksFailed,omitempty"`
}
