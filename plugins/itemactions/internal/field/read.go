package field

import (
	"fmt"
	"math"
	"strings"

	"github.com/cleat-dev/cleat/framework"
)

// Object returns the object at path, or nil if there is none.
func Object(root map[string]any, path ...string) (map[string]any, error) {
	return read[map[string]any](root, path, "an object")
}

// List returns the list at path, or nil if there is none.
func List(root map[string]any, path ...string) ([]any, error) {
	return read[[]any](root, path, "a list")
}

// Objects returns the list of objects at path, or nil if there is none. All elements must be objects.
func Objects(root map[string]any, path ...string) ([]map[string]any, error) {
	list, err := List(root, path...)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	objects := make([]map[string]any, len(list))
	for i, element := range list {
		object, ok := element.(map[string]any)
		if !ok {
			return nil, framework.Errorf("%s[%d] is %s, want an object", strings.Join(path, "."), i, typeOf(element))
		}
		objects[i] = object
	}
	return objects, nil
}

// Text returns the string at path, or "" if there is none.
func Text(root map[string]any, path ...string) (string, error) {
	return read[string](root, path, "a string")
}

// True reports whether the boolean at path exists and is true.
func True(root map[string]any, path ...string) (bool, error) {
	return read[bool](root, path, "true or false")
}

// Integer returns the whole number at path, or 0 if there is none.
func Integer(root map[string]any, path ...string) (int64, error) {
	value, err := read[any](root, path, "a whole number")
	if err != nil {
		return 0, err
	}
	switch number := value.(type) {
	case nil:
		return 0, nil
	case int64:
		return number, nil
	case float64:
		if number == math.Trunc(number) && math.Abs(number) < 1<<53 {
			return int64(number), nil
		}
	}
	return 0, framework.Errorf("%s is %s, want a whole number", strings.Join(path, "."), typeOf(value))
}

// In prefixes err, which reading an object returned, with the position of that object; nil stays nil.
func In(list string, index int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s[%d].%w", list, index, err)
}

// read returns the value at path as a T, or T's zero value if there is none.
func read[T any](root map[string]any, path []string, want string) (T, error) {
	var none T
	object := root
	for i, name := range path[:len(path)-1] {
		value := object[name]
		if value == nil {
			return none, nil
		}
		next, ok := value.(map[string]any)
		if !ok {
			return none, framework.Errorf("%s is %s, want an object", strings.Join(path[:i+1], "."), typeOf(value))
		}
		object = next
	}
	value := object[path[len(path)-1]]
	if value == nil {
		return none, nil
	}
	typed, ok := value.(T)
	if !ok {
		return none, framework.Errorf("%s is %s, want %s", strings.Join(path, "."), typeOf(value), want)
	}
	return typed, nil
}

// typeOf returns the name of the JSON type of value, with an article.
func typeOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case int64:
		return "a number"
	case float64:
		return fmt.Sprintf("the number %v", value)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprintf("a %T", value)
	}
}
