package world

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Difference is a field or a whole object that differs between two snapshots.
type Difference struct {
	Object string // key of the object
	Path   string // dotted path, "" for the whole object
	Before any
	After  any
}

func (d Difference) String() string {
	if d.Path == "" {
		return fmt.Sprintf("%s: was %v, is %v", d.Object, d.Before, d.After)
	}
	return fmt.Sprintf("%s: %s was %v, is %v", d.Object, d.Path, d.Before, d.After)
}

// Compare returns the differences between two snapshots, sorted, except for those that a restore legitimately makes;
// see normalise.
func Compare(before, after Snapshot) []Difference {
	var out []Difference
	for _, k := range slices.Sorted(maps.Keys(before)) {
		now, ok := after[k]
		if !ok {
			out = append(out, Difference{Object: k, Before: "present", After: "missing"})
			continue
		}
		diff(k, "", normalise(before[k]), normalise(now), &out)
	}
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[k]; !ok {
			out = append(out, Difference{Object: k, Before: "missing", After: "present"})
		}
	}
	return out
}

// normalise removes the fields that legitimately differ after a restore.
func normalise(o *unstructured.Unstructured) map[string]any {
	u := o.DeepCopy()
	meta, _ := u.Object["metadata"].(map[string]any)

	// The API server sets these for every object that is created.
	for _, f := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "selfLink"} {
		delete(meta, f)
	}
	// Owners have new uids. A restore removes the references, and controllers adopt their objects.
	delete(meta, "ownerReferences")
	// A restore labels the objects that it has restored.
	for _, l := range []string{"velero.io/backup-name", "velero.io/restore-name"} {
		unstructured.RemoveNestedField(u.Object, "metadata", "labels", l)
	}
	if labels, ok := meta["labels"].(map[string]any); ok && len(labels) == 0 {
		delete(meta, "labels")
	}
	// Controllers write the status, not users.
	delete(u.Object, "status")

	switch u.GetKind() {
	case "Service":
		// The API server assigns addresses and ports again.
		spec, _ := u.Object["spec"].(map[string]any)
		delete(spec, "healthCheckNodePort")
		if spec["clusterIP"] != "None" {
			delete(spec, "clusterIP")
			delete(spec, "clusterIPs")
		}
		ports, _ := spec["ports"].([]any)
		for _, p := range ports {
			if port, ok := p.(map[string]any); ok {
				delete(port, "nodePort")
			}
		}
	case "Job":
		// The API server selects a job's pods by the uid of the job, which has changed.
		for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
			unstructured.RemoveNestedField(u.Object, "spec", "selector", "matchLabels", label)
			unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "labels", label)
		}
	}
	meta["managedFields"] = owners(u.GetManagedFields())
	return u.Object
}

// owners formats field ownership without the parts that legitimately differ: times, owners of the status, controllers,
// and the ownership of the fields that normalise removes.
func owners(entries []metav1.ManagedFieldsEntry) any {
	var out []string
	for _, e := range entries {
		if e.Subresource != "" || e.Manager == "kube-controller-manager" || e.FieldsV1 == nil {
			continue
		}
		var set map[string]any
		if err := yaml.Unmarshal(e.FieldsV1.GetRawBytes(), &set); err != nil {
			out = append(out, fmt.Sprintf("%s %s: %v", e.Manager, e.Operation, err))
			continue
		}
		if m, ok := set["f:metadata"].(map[string]any); ok {
			delete(m, "f:ownerReferences")
			if l, ok := m["f:labels"].(map[string]any); ok {
				delete(l, "f:velero.io/backup-name")
				delete(l, "f:velero.io/restore-name")
				delete(l, ".")
				if len(l) == 0 {
					delete(m, "f:labels")
				}
			}
			if len(m) == 0 {
				delete(set, "f:metadata")
			}
		}
		delete(set, "f:status")
		if len(set) == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("%s %s %s: %s", e.Manager, e.Operation, e.APIVersion, leaves("", set)))
	}
	sort.Strings(out)
	return out
}

func leaves(path string, v any) string {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return path
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, leaves(path+"/"+k, m[k]))
	}
	return strings.Join(out, " ")
}

func diff(object, path string, before, after any, out *[]Difference) {
	b, bIsMap := before.(map[string]any)
	a, aIsMap := after.(map[string]any)
	if bIsMap && aIsMap {
		keys := map[string]bool{}
		for k := range b {
			keys[k] = true
		}
		for k := range a {
			keys[k] = true
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			diff(object, strings.TrimPrefix(path+"."+k, "."), b[k], a[k], out)
		}
		return
	}
	if !reflect.DeepEqual(before, after) {
		*out = append(*out, Difference{Object: object, Path: path, Before: before, After: after})
	}
}
