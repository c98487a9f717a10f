package reference

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// rows returns the rows of references.yaml.
func rows(t testing.TB) []Row {
	t.Helper()
	read, err := parse(builtIn)
	require.NoError(t, err)
	return read.References
}

// sample returns an object with one value at a path, and the path to it: [*] is the second element of a list, and * a
// key.
func sample(path []step, value any) (object any, written string) {
	if len(path) == 0 {
		return value, ""
	}
	inner, rest := sample(path[1:], value)
	if path[0] == eachElement {
		return []any{map[string]any{"name": 7}, inner}, "[1]" + rest
	}
	key := string(path[0])
	if path[0] == eachValue {
		key = "any"
	}
	return map[string]any{key: inner}, "." + label(key) + rest
}

// siblings returns the object that has the name, with all fields that a row reads, and what they lead to.
func siblings(row Row, key string) (object map[string]any, to manifest.Ref) {
	gr := schema.ParseGroupResource(row.To.Resource)
	to = manifest.Ref{Group: gr.Group, Resource: gr.Resource, Kind: row.To.Kind, Name: "target"}
	if row.To.Namespace != Cluster {
		to.Namespace = "shop"
	}
	object = map[string]any{}
	for field, values := range row.When {
		object[field] = values[0]
	}
	fields := row.To.Fields
	for field, set := range map[string]func() any{
		fields.APIVersion: func() any { to.Group, to.Resource = "example.io", ""; return "example.io/v1" },
		fields.Kind:       func() any { to.Kind, to.Resource = "Example", ""; return "Example" },
		fields.Namespace:  func() any { to.Namespace = "other"; return "other" },
		fields.UID:        func() any { to.UID = "u1"; return "u1" },
	} {
		if field != "" {
			object[field] = set()
		}
	}
	if fields.Group != "" {
		to.Group, to.Resource = "example.com", ""
		object[fields.Group] = "example.com"
	}
	object[key] = "target"
	return object, to
}

// TestEachRow holds each row at each of its paths for each of its resources: with all fields that it reads, and with
// the name alone.
func TestEachRow(t *testing.T) {
	t.Parallel()
	for i, row := range rows(t) {
		if row.isPart() || row.To.PerReplica {
			continue
		}
		for _, resource := range row.Resources {
			gr := schema.ParseGroupResource(strings.Replace(resource, "*", "examples", 1))
			for _, text := range row.Paths {
				t.Run(fmt.Sprintf("%d %s %s", i, resource, text), func(t *testing.T) {
					t.Parallel()
					path, err := parsePath(text)
					require.NoError(t, err)
					last := len(path) - 1
					object, to := siblings(row, string(path[last]))
					whole, written := sample(path[:last], object)
					raw, err := json.Marshal(whole)
					require.NoError(t, err)
					edge := manifest.Edge{
						Type: manifest.Reference, Strict: row.Strict, To: to,
						Path: string(appendLabel([]byte(strings.TrimPrefix(written, ".")), label(string(path[last])))),
					}
					require.Contains(t, of(t, gr, string(raw)), edge, "%s", raw)

					if row.SoftIf != "" {
						object[row.SoftIf] = true
						raw, err = json.Marshal(whole)
						require.NoError(t, err)
						edge.Strict = false
						require.Contains(t, of(t, gr, string(raw)), edge, "%s", raw)
					}
					delete(object, string(path[last]))
					raw, err = json.Marshal(whole)
					require.NoError(t, err)
					for _, other := range of(t, gr, string(raw)) {
						require.NotEqual(t, to, other.To, "%s", raw)
					}
				})
			}
		}
	}
}

func of(t testing.TB, gr schema.GroupResource, raw string) []manifest.Edge {
	t.Helper()
	edges, err := BuiltIn().Of(gr.Group, gr.Resource, "shop", []byte(raw))
	require.NoError(t, err)
	return edges
}

// TestPathsAreThoseOfTheAPI holds the rows of built-in resources against their Go types.
func TestPathsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	types := builtInTypes()
	gone := []string{".source.resourceClaim", "webhookClientConfig"} // of older versions
	checked := 0
	for _, row := range rows(t) {
		for _, resource := range row.Resources {
			for _, text := range row.Paths {
				path, err := parsePath(text)
				require.NoError(t, err)
				if slices.ContainsFunc(gone, func(part string) bool { return strings.Contains(text, part) }) {
					continue
				}
				versions, builtIn := types[resource]
				if !builtIn {
					require.Contains(t, resource, ".", "a resource of the core group is built in")
					continue
				}
				checked++
				fields := row.To.Fields
				siblings := slices.DeleteFunc([]string{fields.APIVersion, fields.Group, fields.Kind, fields.Namespace, fields.UID,
					row.SoftIf},
					func(field string) bool { return field == "" })
				for field := range row.When {
					siblings = append(siblings, field)
				}
				require.True(t, slices.ContainsFunc(versions, func(of reflect.Type) bool { return hasPath(of, path, siblings) }),
					"%s has no field %s, or none of %q beside it", resource, text, siblings)
			}
		}
	}
	require.Greater(t, checked, 80)
}

// builtInTypes returns the Go types of the resources of all versions.
func builtInTypes() map[string][]reflect.Type {
	types := map[string][]reflect.Type{
		"customresourcedefinitions.apiextensions.k8s.io": {
			reflect.TypeFor[apiextensionsv1.CustomResourceDefinition](),
			reflect.TypeFor[apiextensionsv1beta1.CustomResourceDefinition](),
		},
	}
	for gvk, of := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		types[plural.GroupResource().String()] = append(types[plural.GroupResource().String()], of)
		if gvk.Kind == "Endpoints" {
			types["endpoints"] = append(types["endpoints"], of)
		}
	}
	return types
}

// hasPath reports whether values of a type can have a path, and fields beside its end.
func hasPath(of reflect.Type, path []step, siblings []string) bool {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case len(path) == 0:
		return of.Kind() == reflect.String || of.Kind() == reflect.Struct
	case path[0] == eachElement:
		return of.Kind() == reflect.Slice && hasPath(of.Elem(), path[1:], siblings)
	case of.Kind() == reflect.Map:
		return hasPath(of.Elem(), path[1:], siblings)
	case of.Kind() != reflect.Struct:
		return false
	}
	if len(path) == 1 && slices.ContainsFunc(siblings, func(name string) bool { return field(of, name) == nil }) {
		return false
	}
	found := field(of, string(path[0]))
	return found != nil && hasPath(found, path[1:], siblings)
}

// field returns the type of a field by its name in JSON, or nil.
func field(of reflect.Type, name string) reflect.Type {
	for i := range of.NumField() {
		f := of.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f.Type
		}
		if tag == "" && (f.Anonymous || options == "inline") && f.Type.Kind() == reflect.Struct {
			if found := field(f.Type, name); found != nil {
				return found
			}
		}
	}
	return nil
}

func TestTargetsAreResourcesWithTheirKinds(t *testing.T) {
	t.Parallel()
	types := builtInTypes()
	for i, row := range rows(t) {
		if row.To.Resource == "" {
			continue
		}
		require.Equal(t, row.To.Kind[:1], strings.ToUpper(row.To.Kind[:1]))
		guess, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: row.To.Kind})
		plural, _, _ := strings.Cut(row.To.Resource, ".")
		require.Contains(t, []string{guess.Resource, strings.ToLower(row.To.Kind) + "s"}, plural, "row %d", i)
		if found := types[row.To.Resource]; found != nil {
			require.True(t, slices.ContainsFunc(found, func(of reflect.Type) bool { return of.Name() == row.To.Kind }), "row %d",
				i)
		} else {
			require.Contains(t, row.To.Resource, ".", "row %d", i)
		}
	}
}

func TestBuiltInGroupsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if gvk.Group != "__internal" && !strings.HasPrefix(gvk.Group, "meta.") && gvk.Version != "__internal" {
			require.True(t, BuiltIn().groups[gvk.Group], "%s is built in", gvk.Group)
		}
	}
	for group := range BuiltIn().groups {
		if group != "" {
			require.Empty(t, validation.IsDNS1123Subdomain(group))
		}
	}
}
