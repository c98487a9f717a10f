package discovery

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is one type of object that the API server serves.
type Resource struct {
	// GroupVersion is the group and the version that the server prefers for this resource.
	GroupVersion schema.GroupVersion
	// Name is the plural name, e.g. "pods".
	Name string
	// Singular is the singular name, e.g. "pod".
	Singular string
	// Kind of its objects, e.g. "Pod".
	Kind string
	// ShortNames are what people type, e.g. "po".
	ShortNames []string
	// Namespaced tells namespaced objects from cluster-scoped ones.
	Namespaced bool
	// Verbs that the server supports, e.g. "list".
	Verbs []string
}

// GroupResource is the resource without its version.
func (r Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.GroupVersion.Group, Resource: r.Name}
}

// GroupVersionResource is the resource in its preferred version.
func (r Resource) GroupVersionResource() schema.GroupVersionResource {
	return r.GroupVersion.WithResource(r.Name)
}

// GroupVersionKind is the kind of the objects in the preferred version.
func (r Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion.WithKind(r.Kind)
}

// Can says whether the server supports all of the verbs.
func (r Resource) Can(verbs ...string) bool {
	for _, verb := range verbs {
		if !slices.Contains(r.Verbs, verb) {
			return false
		}
	}
	return true
}

// Path is the URL path of the resource on the API server: of all its objects when namespace is
// empty, of those in one namespace otherwise. Append "/" and a name for one object.
func (r Resource) Path(namespace string) string {
	path := "/apis/" + r.GroupVersion.Group + "/" + r.GroupVersion.Version
	if r.GroupVersion.Group == "" {
		path = "/api/" + r.GroupVersion.Version
	}
	if namespace != "" && r.Namespaced {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.Name
}
