package sample

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/proto/velero/shared"
)

//go:embed samples.yaml
var samplesYAML []byte

// Sample is an object that actions are asked about.
type Sample struct {
	Object map[string]any
	names  []string // names of its resource that a selector may use
	Plural string   // plural name of its resource, if known
	Short  string
	fixed  bool // it is the caller's and is not adapted to selectors
}

// All returns the given items, in YAML or JSON, and the built-in ones.
func All(items [][]byte) ([]Sample, error) {
	var builtIn []struct {
		Plural, Short string
		Object        map[string]any
	}
	if err := yaml.UnmarshalStrict(samplesYAML, &builtIn); err != nil {
		return nil, fmt.Errorf("the samples: %w", err)
	}
	var all []Sample
	for _, one := range builtIn {
		all = append(all, Sample{Object: one.Object, names: resourceNames(one.Object, one.Plural, one.Short),
			Plural: one.Plural, Short: one.Short})
	}
	for i, raw := range items {
		var object map[string]any
		if err := yaml.Unmarshal(raw, &object); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		item := unstructured.Unstructured{Object: object}
		if item.GetAPIVersion() == "" || item.GetKind() == "" || item.GetName() == "" {
			return nil, fmt.Errorf("item %d: it has no apiVersion, kind or metadata.name", i+1)
		}
		one := Sample{Object: object, names: resourceNames(object, Plural(item.GetKind())), fixed: true}
		all = append([]Sample{one}, all...)
	}
	return all, nil
}

// resourceNames returns the names of the resource of object, each with and without its group.
func resourceNames(object map[string]any, known ...string) []string {
	item := unstructured.Unstructured{Object: object}
	var names []string
	for _, name := range append(known, strings.ToLower(item.GetKind())) {
		if name == "" {
			continue
		}
		names = append(names, name)
		if group := item.GroupVersionKind().Group; group != "" {
			names = append(names, name+"."+group)
		}
	}
	return names
}

// Plural returns the likely name of the resource of a kind.
func Plural(kind string) string {
	kind = strings.ToLower(kind)
	switch {
	case strings.HasSuffix(kind, "s"), strings.HasSuffix(kind, "x"), strings.HasSuffix(kind, "ch"):
		return kind + "es"
	case strings.HasSuffix(kind, "y") && !strings.HasSuffix(kind, "ey"):
		return strings.TrimSuffix(kind, "y") + "ies"
	}
	return kind + "s"
}

// Made returns samples of the resources that a selector includes by name and that are not among known: of kinds that
// only the action and its cluster know.
func Made(selector *shared.ResourceSelector, known []Sample) []Sample {
	var made []Sample
	for _, wanted := range selector.GetIncludedResources() {
		isKnown := slices.ContainsFunc(known, func(one Sample) bool { return Selects([]string{wanted}, nil, one.names...) })
		name, group, _ := strings.Cut(wanted, ".")
		if isKnown || name == "" || strings.ContainsAny(wanted, "*?[\\/") {
			continue
		}
		kind := name
		if name == strings.ToLower(name) {
			name = singular(name)
			kind = strings.ToUpper(name[:1]) + name[1:]
		}
		object := map[string]any{
			"apiVersion": cmp.Or(strings.ToLower(group), "conformance.invalid") + "/v1", "kind": kind,
			"metadata": map[string]any{"name": "sample", "namespace": "conformance", "labels": map[string]any{"app": "sample"}},
		}
		made = append(made, Sample{Object: object, names: append(resourceNames(object, Plural(kind)),
			strings.ToLower(wanted)), Plural: Plural(kind)})
	}
	return made
}

// singular returns the likely singular of a plural.
func singular(plural string) string {
	for _, ending := range [][2]string{{"ies", "y"}, {"sses", "ss"}, {"xes", "x"}, {"ches", "ch"}, {"s", ""}} {
		if stem, found := strings.CutSuffix(plural, ending[0]); found && stem != "" {
			return stem + ending[1]
		}
	}
	return plural
}

// Fit returns s adapted so that selector selects it, and whether that is possible.
func (s Sample) Fit(selector *shared.ResourceSelector) (Sample, bool) {
	if !Selects(selector.GetIncludedResources(), selector.GetExcludedResources(), s.names...) {
		return Sample{}, false
	}
	item := &unstructured.Unstructured{Object: CloneObject(s.Object)}
	wanted, err := labels.Parse(selector.GetSelector())
	if err != nil {
		return Sample{}, false
	}
	if !s.fixed {
		if item.GetNamespace() != "" {
			item.SetNamespace(namespaceFor(selector.GetIncludedNamespaces()))
		}
		item.SetLabels(labelsFor(wanted, item.GetLabels()))
	}
	included, excluded := selector.GetIncludedNamespaces(), selector.GetExcludedNamespaces()
	switch {
	case !wanted.Matches(labels.Set(item.GetLabels())):
		return Sample{}, false
	case item.GetNamespace() != "":
		if !Selects(included, excluded, item.GetNamespace()) {
			return Sample{}, false
		}
	case len(included) > 0 && !slices.Contains(included, "*"), len(excluded) > 0:
		return Sample{}, false
	}
	s.Object = item.Object
	return s, true
}

// Selects reports whether one of names is included and none is excluded.
func Selects(included, excluded []string, names ...string) bool {
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			return slices.ContainsFunc(names, func(name string) bool {
				matched, err := path.Match(strings.ToLower(pattern), name)
				return err == nil && matched
			})
		})
	}
	without := slices.DeleteFunc(slices.Clone(excluded), func(pattern string) bool { return pattern == "*" })
	return (len(included) == 0 || matches(included)) && !matches(without)
}

func namespaceFor(included []string) string {
	if len(included) == 0 || included[0] == "*" {
		return "conformance"
	}
	return strings.NewReplacer("*", "conformance", "?", "x").Replace(included[0])
}

// labelsFor returns labels that a selector matches, including existing ones where possible.
func labelsFor(wanted labels.Selector, there map[string]string) map[string]string {
	got := maps.Clone(there)
	if got == nil {
		got = map[string]string{}
	}
	requirements, _ := wanted.Requirements()
	for _, requirement := range requirements {
		switch requirement.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			got[requirement.Key()] = requirement.Values().List()[0]
		case selection.Exists:
			if _, ok := got[requirement.Key()]; !ok {
				got[requirement.Key()] = "sample"
			}
		case selection.DoesNotExist, selection.NotIn, selection.NotEquals:
			delete(got, requirement.Key())
		case selection.GreaterThan, selection.LessThan:
		}
	}
	return got
}

// String returns the kind, namespace and name of the object.
func (s Sample) String() string {
	item := unstructured.Unstructured{Object: s.Object}
	if item.GetNamespace() == "" {
		return item.GetKind() + " " + item.GetName()
	}
	return item.GetKind() + " " + item.GetNamespace() + "/" + item.GetName()
}

// With returns a copy of s that change was applied to.
func (s Sample) With(change func(item *unstructured.Unstructured)) Sample {
	item := &unstructured.Unstructured{Object: CloneObject(s.Object)}
	change(item)
	s.Object = item.Object
	return s
}

// paddingWord stands for the padding of a large item, so that the item is decoded without it.
const paddingWord = "conformance-padding"

// Padding returns size bytes that compress well.
func Padding(size int) []byte { return bytes.Repeat([]byte("0123456789abcdef"), size/16) }

// Pad replaces paddingWord by size bytes.
func Pad(item []byte, size int) []byte {
	return bytes.Replace(item, []byte(paddingWord), Padding(size), 1)
}

// Unpad replaces the padding of size bytes by paddingWord.
func Unpad(item []byte, size int) []byte {
	return bytes.Replace(item, Padding(size), []byte(paddingWord), 1)
}

// Padded returns s with paddingWord in it: in the data of a ConfigMap, in an annotation of other objects.
func (s Sample) Padded() Sample {
	return s.With(func(item *unstructured.Unstructured) {
		if item.GetKind() == "ConfigMap" {
			_ = unstructured.SetNestedField(item.Object, paddingWord, "data", "padding")
			return
		}
		Annotate(item, "conformance.invalid/padding", paddingWord)
	})
}

// Annotate sets an annotation of an object.
func Annotate(item *unstructured.Unstructured, key, value string) {
	annotations := item.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	item.SetAnnotations(annotations)
}

// Stored returns the object as it is in a cluster or a backup, including fields that a restore removes.
func (s Sample) Stored() []byte {
	return Encode(s.With(func(item *unstructured.Unstructured) {
		item.SetUID("5d5b6c7e-0000-4000-8000-000000000000")
		item.SetResourceVersion("4711")
		_ = unstructured.SetNestedField(item.Object, "2026-01-02T03:04:05Z", "metadata", "creationTimestamp")
	}).Object)
}

// Created returns the object as a restore is about to create it.
func (s Sample) Created() []byte {
	return Encode(s.With(func(item *unstructured.Unstructured) { delete(item.Object, "status") }).Object)
}

// Backup returns the Backup that items are part of.
func Backup(name string) map[string]any {
	return map[string]any{
		"apiVersion": "velero.io/v1", "kind": "Backup",
		"metadata": map[string]any{
			"name": name, "namespace": "velero", "uid": "5d5b6c7e-0000-4000-8000-00000000000b",
			"labels": map[string]any{"velero.io/storage-location": "default"},
		},
		"spec": map[string]any{
			"storageLocation": "default", "ttl": "720h0m0s", "includedNamespaces": []any{"*"}, "metadata": map[string]any{},
			"hooks": map[string]any{}, "csiSnapshotTimeout": "10m0s", "itemOperationTimeout": "4h0m0s",
		},
		"status": map[string]any{"phase": "InProgress", "version": int64(1), "formatVersion": "1.1.0",
			"startTimestamp": "2026-01-02T03:04:05Z"},
	}
}

// Restore returns the Restore that items are part of.
func Restore(name string) map[string]any {
	return map[string]any{
		"apiVersion": "velero.io/v1", "kind": "Restore",
		"metadata": map[string]any{"name": name, "namespace": "velero", "uid": "5d5b6c7e-0000-4000-8000-00000000000c"},
		"spec": map[string]any{
			"backupName": "nightly", "includedNamespaces": []any{"*"}, "excludedResources": []any{"nodes", "events"},
			"hooks": map[string]any{}, "itemOperationTimeout": "4h0m0s",
		},
		"status": map[string]any{"phase": "InProgress", "startTimestamp": "2026-01-02T03:04:05Z"},
	}
}

// CloneObject returns a deep copy of an object.
func CloneObject(object map[string]any) map[string]any {
	var copied map[string]any
	if err := json.Unmarshal(Encode(object), &copied); err != nil {
		panic(err) // it was just encoded
	}
	return copied
}

// Encode returns the JSON of a value that was made here, or decoded from JSON or YAML.
func Encode(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return encoded
}

// Identity identifies an object.
type Identity struct{ APIVersion, Kind, Namespace, Name string }

// Group returns the API group.
func (i Identity) Group() string {
	group, _, found := strings.Cut(i.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// IdentityOf reads the identity of an object from its JSON.
func IdentityOf(raw []byte) (Identity, error) {
	if len(raw) == 0 {
		return Identity{}, errors.New("there is no item in the answer")
	}
	var object struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return Identity{}, fmt.Errorf("the item is not the JSON of an object: %w: %s", err, Brief(raw))
	}
	return Identity{object.APIVersion, object.Kind, object.Metadata.Namespace, object.Metadata.Name}, nil
}

// Brief returns the beginning of data for a message, quoted.
func Brief(data []byte) string {
	const enough = 200
	if len(data) == 0 {
		return "nothing"
	}
	return cmp.Or(fmt.Sprintf("%.*q", enough, data))
}
