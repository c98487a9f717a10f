package itemname

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// Name is an item as a user has named it.
type Name struct {
	Resource, Namespace, Name string
	AnyNamespace              bool // none was given
}

// Parse parses RESOURCE/[NAMESPACE/]NAME, as one or two arguments.
func Parse(args ...string) (Name, error) {
	parts := strings.Split(strings.Join(args, "/"), "/")
	n := Name{Resource: parts[0], Name: parts[len(parts)-1], AnyNamespace: len(parts) == 2}
	if len(parts) == 3 {
		n.Namespace = parts[1]
	}
	if len(parts) < 2 || len(parts) > 3 || n.Resource == "" || n.Name == "" {
		return Name{}, fmt.Errorf("item %q: want RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME", strings.Join(args, " "))
	}
	return n, nil
}

// String returns the name as one argument.
func (n Name) String() string {
	if n.AnyNamespace {
		return n.Resource + "/" + n.Name
	}
	return n.Resource + "/" + n.Namespace + "/" + n.Name
}

// In reports whether the name may be that of an item of a namespace.
func (n Name) In(namespace string) bool { return n.AnyNamespace || n.Namespace == namespace }

// Is reports whether the name has the resource of an item. The kind may be unknown.
func (n Name) Is(gr schema.GroupResource, version, kind string, namespaced bool) bool {
	if resource, known := BuiltIns().Resolve(n.Resource); known {
		return resource == gr
	}
	if kind == "" {
		return n.Resource == gr.Resource || n.Resource == gr.String()
	}
	_, same := Alone(gr, version, kind, namespaced).Resolve(n.Resource)
	return same
}

// Alone returns the answer of an API server that serves one resource.
func Alone(gr schema.GroupResource, version, kind string, namespaced bool) *discovery.Snapshot {
	gv := schema.GroupVersion{Group: gr.Group, Version: version}
	return discovery.NewSnapshot(nil, []*metav1.APIResourceList{resourceList(gv, gr.Resource, kind, namespaced)})
}
