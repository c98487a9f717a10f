package discovery

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource describes one type of object that the API server serves.
type Resource struct {
	// GroupVersion is the group and the version that the server prefers for this resource; see NotPreferred.
	GroupVersion schema.GroupVersion
	// Name is the plural name, e.g. "pods".
	Name string
	// Singular is the singular name, e.g. "pod".
	Singular string
	// Kind is the kind of the objects, e.g. "Pod".
	Kind string
	// ShortNames are abbreviations, e.g. "po".
	ShortNames []string
	// Namespaced is true for namespaced objects and false for cluster-scoped ones.
	Namespaced bool
	// Verbs are the verbs that the server supports, e.g. "list".
	Verbs []string
	// Others are the other versions in which the server serves the objects, in the order of Kubernetes: v2, v1, v1beta1.
	Others []string
	// NotPreferred is true for a resource that In has returned.
	NotPreferred bool
}

// Serves reports whether the server serves the objects in a version.
func (r Resource) Serves(version string) bool {
	return r.GroupVersion.Version == version || slices.Contains(r.Others, version)
}

// In returns the resource in another version than the preferred one.
func (r Resource) In(version string) Resource {
	r.GroupVersion.Version, r.Others, r.NotPreferred = version, nil, true
	return r
}

// GroupResource returns the group and the plural name.
func (r Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.GroupVersion.Group, Resource: r.Name}
}

// GroupVersionResource returns the group, the preferred version and the plural name.
func (r Resource) GroupVersionResource() schema.GroupVersionResource {
	return r.GroupVersion.WithResource(r.Name)
}

// GroupVersionKind returns the group, the preferred version and the kind of the objects.
func (r Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion.WithKind(r.Kind)
}

// Can reports whether the server supports all of the given verbs.
func (r Resource) Can(verbs ...string) bool {
	for _, verb := range verbs {
		if !slices.Contains(r.Verbs, verb) {
			return false
		}
	}
	return true
}
