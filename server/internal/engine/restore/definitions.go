package restore

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// definitions are the custom resource definitions that the restore selects, and what they define, so that it knows
// their custom resources before the cluster does.
type definitions struct {
	objects   archive.Objects
	resources []discovery.Resource
}

// readDefinitions reads the selected definitions.
func (e *engine) readDefinitions() error {
	objects, err := e.collect(crdsResource)
	if err != nil {
		return err
	}
	e.definitions.objects = objects
	for i := range objects.Len() {
		raw, err := e.archive.Read(objects.At(i))
		if err != nil {
			return err
		}
		definition, err := object.Decode(raw)
		if err != nil {
			continue // its restore reports it
		}
		if resource, ok := defines(definition); ok {
			e.definitions.resources = append(e.definitions.resources, resource)
		}
	}
	return nil
}

// define records what the item defines, which is a definition that the restore has written. Its name is
// "<plural>.<group>".
func (r *itemRun) define() {
	if r.entry.GroupResource == crdsResource && (r.claim.action == actionCreated || r.claim.action == actionUpdated) {
		r.engine.addDefined(schema.ParseGroupResource(r.obj.Name), r.claim.action == actionUpdated)
	}
}

// defines returns the resource that a definition defines, in the version that the API server would prefer. ok is false
// if no version is served.
func defines(crd *object.Object) (resource discovery.Resource, ok bool) {
	var spec struct {
		Group string
		Names struct {
			Plural, Singular, Kind string
			ShortNames             []string
		}
		Scope    string
		Versions []struct {
			Name   string
			Served bool
		}
	}
	if json.Unmarshal(crd.Top.Get("spec"), &spec) != nil {
		return discovery.Resource{}, false
	}
	var served []string
	for _, v := range spec.Versions {
		if v.Served {
			served = append(served, v.Name)
		}
	}
	if len(served) == 0 {
		return discovery.Resource{}, false
	}
	slices.SortFunc(served, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return discovery.Resource{
		GroupVersion: schema.GroupVersion{Group: spec.Group, Version: served[0]}, Name: spec.Names.Plural,
		Singular: cmp.Or(spec.Names.Singular, strings.ToLower(spec.Names.Kind)), Kind: spec.Names.Kind,
		ShortNames: spec.Names.ShortNames,
		Namespaced: spec.Scope == "Namespaced", Verbs: []string{"create", "delete", "get", "list", "patch", "update",
			"watch"}, Others: served[1:],
	}, true
}
