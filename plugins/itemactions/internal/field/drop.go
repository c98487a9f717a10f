package field

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Drop takes the keys for which drop says true out of the object at path, and takes the object itself away
// when that left it empty, as an API server does not store empty maps. It returns the keys it took, sorted.
// It is for maps of strings, labels, annotations or the data of a Secret: a value that is none is an error.
func Drop(root map[string]any, drop func(key, value string) bool, path ...string) ([]string, error) {
	object, err := Object(root, path...)
	if err != nil || len(object) == 0 {
		return nil, err
	}
	var dropped []string
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value, err := Text(root, append(slices.Clone(path), key)...)
		if err != nil {
			return nil, err
		}
		if drop(key, value) {
			dropped = append(dropped, key)
		}
	}
	for _, key := range dropped {
		delete(object, key)
	}
	if len(object) == 0 {
		unstructured.RemoveNestedField(root, path...)
	}
	return dropped, nil
}

// OneOf is for Drop: it takes the given keys.
func OneOf(keys ...string) func(key, value string) bool {
	return func(key, _ string) bool { return slices.Contains(keys, key) }
}

// Remove takes the field at path away and says whether there was one. What leads there must be objects, or
// nothing.
func Remove(root map[string]any, path ...string) (bool, error) {
	last := len(path) - 1
	object := root
	if last > 0 {
		parent, err := Object(root, path[:last]...)
		if err != nil {
			return false, err
		}
		object = parent
	}
	_, there := object[path[last]]
	delete(object, path[last])
	return there, nil
}
