package references

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// apply maps the fields at a path below an object, and reports whether that has changed one. Values of other shapes than
// the path expects are left to the API server, which refuses them.
func apply(mapping map[string]string, object map[string]any, path []string, by form) bool {
	name, last := path[0], len(path) == 1
	if name == "*" {
		changed := false
		for _, key := range slices.Sorted(maps.Keys(object)) {
			changed = apply(mapping, object, append([]string{key}, path[1:]...), by) || changed
		}
		return changed
	}
	name, isList := strings.CutSuffix(name, "[]")
	switch {
	case !isList && last:
		return set(mapping, object, name, by)
	case !isList:
		inner, ok := object[name].(map[string]any)
		return ok && apply(mapping, inner, path[1:], by)
	}
	list, _ := object[name].([]any)
	changed := false
	for i, element := range list {
		if last {
			if value, is := by(mapping, element); is {
				list[i], changed = value, true
			}
		} else if inner, ok := element.(map[string]any); ok {
			changed = apply(mapping, inner, path[1:], by) || changed
		}
	}
	if changed && last {
		object[name] = unique(list)
	}
	return changed
}

// unique returns a list without the elements that equal an earlier one.
func unique(list []any) []any {
	var kept []any
	for _, element := range list {
		if !slices.ContainsFunc(kept, func(other any) bool { return reflect.DeepEqual(other, element) }) {
			kept = append(kept, element)
		}
	}
	return kept
}
