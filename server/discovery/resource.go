package discovery

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource describes one type of object that the API server serves.
type Resource struct {
	// GroupVersion is the group and the version that the server prefers for this resource.
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
