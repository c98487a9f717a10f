package v1

import "k8s.io/apimachinery/pkg/types"

// SecretKeySelector names one key of a Secret in the namespace of the object that refers to it.
// Its JSON is that of the Kubernetes core type of the same name.
//
// +structType=atomic
type SecretKeySelector struct {
	// Name is the name of the Secret.
	// +optional
	// +kubebuilder:default=""
	Name string `json:"name,omitempty"`

	// Key is the key in the Secret's data.
	Key string `json:"key"`

	// Optional specifies whether the Secret or its key may be missing.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// TypedLocalObjectReference names an object of any kind in the namespace of the object that
// refers to it. Its JSON is that of the Kubernetes core type of the same name.
//
// +structType=atomic
type TypedLocalObjectReference struct {
	// APIGroup is the API group of the object. null and absent mean the core group.
	// +optional
	APIGroup *string `json:"apiGroup"`

	// Kind is the kind of the object, e.g. configmap.
	Kind string `json:"kind"`

	// Name is the name of the object.
	Name string `json:"name"`
}

// ObjectReference names an object of any kind and namespace. Its JSON is that of the Kubernetes core type of the same
// name.
//
// +structType=atomic
type ObjectReference struct {
	// Kind is the kind of the object, e.g. Pod.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Namespace is the namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name is the name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// UID is the UID of the object.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// APIVersion is the group and version of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// ResourceVersion is the version of the object to which the reference was made.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// FieldPath names a part of the object, e.g. spec.containers{name}.
	// +optional
	FieldPath string `json:"fieldPath,omitempty"`
}
