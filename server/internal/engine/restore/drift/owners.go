package drift

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// systemManagers are the field managers of Kubernetes' own components. Their values are derived from other objects.
var systemManagers = []string{
	"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "cloud-controller-manager",
	"clusterrole-aggregation-controller",
}

// owners are the sets of chosen fields below one field. They belong to all managers except Kubernetes itself and the
// writers of the status. The API server owns no fields, so the values that it allocates have no owner.
type owners struct {
	everything bool // owners are not recorded, so that every field counts as chosen
	sets       []map[string]any
}

// ownersOf reads metadata.managedFields of an object.
func ownersOf(o map[string]any) owners {
	meta, _ := o["metadata"].(map[string]any)
	entries, _ := meta["managedFields"].([]any)
	if len(entries) == 0 {
		return owners{everything: true}
	}
	var all owners
	for _, raw := range entries {
		entry, _ := raw.(map[string]any)
		manager, _ := entry["manager"].(string)
		set, _ := entry["fieldsV1"].(map[string]any)
		if set != nil && entry["subresource"] != "status" && !slices.Contains(systemManagers, manager) {
			all.sets = append(all.sets, set)
		}
	}
	return all
}

// any reports whether the field, or one below it, was chosen.
func (o owners) any() bool { return o.everything || len(o.sets) > 0 }

func (o owners) field(name string) owners { return o.below("f:" + name) }

// name reports whether a manager has chosen the field of that name itself, and not only the object that has it. Then
// the object had the field, and it was not empty.
func (o owners) name(field string) bool {
	return slices.ContainsFunc(o.sets, func(set map[string]any) bool {
		below, ok := set["f:"+field].(map[string]any)
		_, empty := below["."]
		return ok && (!empty || len(below) > 1)
	})
}

// element returns the owners of an element of a list.
func (o owners) element(element any) owners {
	fields, _ := element.(map[string]any)
	for _, set := range o.sets {
		for key := range set {
			if !strings.HasPrefix(key, "k:") {
				continue
			}
			if actual, ok := keyLike(key[2:], fields); ok {
				return o.below("k:" + actual)
			}
			return owners{}
		}
	}
	return o.below("")
}

// below returns the owners one level below. A set without members owns all fields below it.
func (o owners) below(key string) owners {
	found := owners{everything: o.everything}
	for _, set := range o.sets {
		if len(set) == 0 {
			found.sets = append(found.sets, set)
			continue
		}
		if child, ok := set[key].(map[string]any); ok {
			found.sets = append(found.sets, child)
		}
	}
	return found
}

// keyLike returns the key of an element in the form of example, the key of an element of the same list.
func keyLike(example string, element map[string]any) (string, bool) {
	var names map[string]any
	if json.Unmarshal([]byte(example), &names) != nil {
		return "", false
	}
	for name := range names {
		names[name] = element[name]
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(names) != nil {
		return "", false
	}
	return strings.TrimSpace(out.String()), true
}
