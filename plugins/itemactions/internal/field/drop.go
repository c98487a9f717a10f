package field

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Drop removes the keys for which drop returns true from the object at path. It removes the object too if that leaves
// it empty, because an API server does not store empty maps. It returns the removed keys, sorted. All values must be
// strings, as in labels, annotations and the data of a Secret.
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

// OneOf returns a function for Drop that selects the given keys.
func OneOf(keys ...string) func(key, value string) bool {
	return func(key, _ string) bool { return slices.Contains(keys, key) }
}

// Remove removes the field at path and reports whether it existed. Its parents must be objects or absent.
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
