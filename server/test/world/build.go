package world

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Label is the label of all cluster-scoped objects of a world, including its namespaces. Its value is the world's
// prefix.
const Label = "world.cleat.dev/name"

// Group is the API group of the world's custom resources.
const Group = "world.cleat.dev"

// Spec is the size of a world.
type Spec struct {
	Prefix     string // of namespaces and cluster-scoped objects; unique per run
	Namespaces int    // 20 in the demo
	ConfigMaps int    // per namespace, small ones
	Secrets    int    // per namespace
	Large      int    // config maps of LargeBytes, distributed over the namespaces
	LargeBytes int    // bytes of data in a large config map; the API server's limit is about 1 MiB
}

// Demo returns the size of the demo's world: more than 3,000 objects of more than 25 kinds in 20 namespaces.
func Demo(prefix string) Spec {
	return Spec{Prefix: prefix, Namespaces: 20, ConfigMaps: 70, Secrets: 35, Large: 10, LargeBytes: 900 << 10}
}

// Object is an object to create, with the tool of a typical user.
type Object struct {
	*unstructured.Unstructured
	Resource string // plural name
	Manager  string // field manager
	Apply    bool   // server-side apply instead of a create
	// CoManager, if not empty, applies CoPatch after the creation, so that two managers own fields of the object.
	CoManager string
	CoPatch   map[string]any
	// OwnerName is "resource/name" of the owner, an earlier object in the same namespace.
	OwnerName string
}

type fields = map[string]any

// Build returns the world's objects in an order in which they can be created.
func Build(s Spec) []Object {
	objects := clusterScoped(s)
	for n := range s.Namespaces {
		objects = append(objects, namespaced(s, n)...)
	}
	for n := range s.Large {
		ns := s.Namespace(n % s.Namespaces)
		objects = append(objects, configMap(ns, fmt.Sprintf("large-%d", n), fields{"blob": noise(n, s.LargeBytes)}))
	}
	return objects
}

// Namespace returns the name of the world's n-th namespace.
func (s Spec) Namespace(n int) string { return fmt.Sprintf("%s-%02d", s.Prefix, n) }

func object(apiVersion, kind, resource, ns, name string, body fields) Object {
	meta := fields{"name": name}
	if ns != "" {
		meta["namespace"] = ns
	}
	u := &unstructured.Unstructured{Object: fields{"apiVersion": apiVersion, "kind": kind, "metadata": meta}}
	for k, v := range body {
		u.Object[k] = v
	}
	return Object{Unstructured: u, Resource: resource, Manager: "kubectl-create"}
}

func (o Object) labelled(key, value string) Object {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	o.SetLabels(labels)
	return o
}

func (o Object) managedBy(manager string, apply bool) Object {
	o.Manager, o.Apply = manager, apply
	return o
}

func (o Object) ownedBy(owner string) Object {
	o.OwnerName = owner
	return o
}

func configMap(ns, name string, data fields) Object {
	return object("v1", "ConfigMap", "configmaps", ns, name, fields{"data": data})
}

// noise returns text that compresses about as well as typical configuration. It depends only on its arguments.
func noise(seed, size int) string {
	var b strings.Builder
	b.Grow(size + 32)
	x := uint32(seed)*2654435761 + 12345
	for b.Len() < size {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		fmt.Fprintf(&b, "key-%03d = %08x\n", x%997, x)
	}
	return b.String()[:size]
}
