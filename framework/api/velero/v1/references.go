package v1

// SecretKeySelector names one key of a Secret in the namespace of the object that refers to it.
// Its JSON is that of the Kubernetes core type of the same name.
//
// +structType=atomic
type SecretKeySelector struct {
	// Name of the Secret.
	// +optional
	// +kubebuilder:default=""
	Name string `json:"name,omitempty"`

	// Key within the Secret's data.
	Key string `json:"key"`

	// Optional says whether the Secret or its key may be missing.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// TypedLocalObjectReference names an object of some kind in the namespace of the object that
// refers to it. Its JSON is that of the Kubernetes core type of the same name.
//
// +structType=atomic
type TypedLocalObjectReference struct {
	// APIGroup of the object; absent for the core group. null and absent are the same.
	// +optional
	APIGroup *string `json:"apiGroup"`

	// Kind of the object, e.g. configmap.
	Kind string `json:"kind"`

	// Name of the object.
	Name string `json:"name"`
}
