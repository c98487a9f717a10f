package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Object is what makes a Kubernetes object that object.
type Object struct {
	APIVersion string
	Kind       string
	Namespace  string // empty for a cluster-scoped object
	Name       string
}

// Group is the API group, empty for core.
func (o Object) Group() string {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// ScanObject finds the identity of the object whose JSON raw is. It fails when raw is no JSON object, or when
// what it looks for is there but is no string. What is not there is left empty.
func ScanObject(raw []byte) (Object, error) {
	if len(raw) == 0 {
		return Object{}, errors.New("is empty, want the JSON of an object")
	}
	if !json.Valid(raw) {
		return Object{}, fmt.Errorf("is no JSON: %w", json.Unmarshal(raw, new(json.RawMessage)))
	}
	var object Object
	err := eachMember(raw, func(key string, value []byte) (err error) {
		switch key {
		case "apiVersion":
			object.APIVersion, err = text(key, value)
		case "kind":
			object.Kind, err = text(key, value)
		case "metadata":
			object.Namespace, object.Name = "", "" // of two metadata the last one counts, whole
			if string(value) == "null" {
				return nil
			}
			err = eachMember(value, func(key string, value []byte) (err error) {
				switch key {
				case "namespace":
					object.Namespace, err = text("metadata.namespace", value)
				case "name":
					object.Name, err = text("metadata.name", value)
				}
				return err
			})
			if errors.Is(err, errNoObject) {
				err = fmt.Errorf("metadata %w", err)
			}
		}
		return err
	})
	return object, err
}

// text is the string that value is; null is the empty one.
func text(field string, value []byte) (string, error) {
	if value[0] != '"' && string(value) != "null" {
		return "", fmt.Errorf("%s is %s, want a string", field, clip(value))
	}
	var decoded string
	if err := json.Unmarshal(value, &decoded); err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return decoded, nil
}

// clip is value, shortened for an error message.
func clip(value []byte) string {
	const enough = 40
	if len(value) > enough {
		return strings.ToValidUTF8(string(value[:enough]), "") + "..."
	}
	return string(value)
}
