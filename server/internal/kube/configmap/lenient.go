package configmap

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// DecodeKnown decodes the YAML or JSON of a document for which a newer version may have more keys. It returns those
// that T lacks, with their paths. Duplicate keys and values of a wrong type are errors.
func DecodeKnown[T any](document []byte) (value T, ignored []string, err error) {
	text, err := JSON(document)
	if err != nil {
		return value, nil, err
	}
	if err := yaml.Unmarshal(text, &value); err != nil {
		return value, nil, oneLine(err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return value, nil, oneLine(err)
	}
	return value, unknown(plain, reflect.TypeFor[T](), ""), nil
}

// unknown returns the keys, with their paths, of a decoded document that a type does not have. The case of keys does
// not matter, as in encoding/json.
func unknown(plain any, t reflect.Type, at string) (keys []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch plain := plain.(type) {
	case []any:
		for i, element := range plain {
			if t.Kind() == reflect.Slice {
				keys = append(keys, unknown(element, t.Elem(), fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(plain)) {
			of, found := elementOf(t, key)
			switch path := strings.TrimPrefix(at+"."+key, "."); {
			case !found:
				keys = append(keys, path)
			case of != nil:
				keys = append(keys, unknown(plain[key], of, path)...)
			}
		}
	}
	return keys
}

// elementOf returns the type of the value of a key, nil for any type, and whether a value of type t can have the key.
func elementOf(t reflect.Type, key string) (of reflect.Type, found bool) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), true
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if inlined := field.Anonymous && name == ""; !inlined && strings.EqualFold(cmp.Or(name, field.Name), key) {
				return field.Type, true
			}
		}
		return nil, false
	default:
		return nil, true
	}
}
