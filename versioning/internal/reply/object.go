package reply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Object is what makes a Kubernetes object that object.
type Object struct {
	APIVersion string
	Kind       string
	Namespace  string // empty for a cluster-scoped object
	Name       string
	UID        string // of the cluster; often empty
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
	var object Object
	var apiVersion, kind, metadata, namespace, name, uid []byte // of members of the same name the last one counts
	if err := eachMember(raw, func(key, value []byte) {
		switch string(key) {
		case "apiVersion":
			apiVersion = value
		case "kind":
			kind = value
		case "metadata":
			metadata = value
		}
	}); err != nil {
		return Object{}, err
	}
	if metadata != nil && string(metadata) != "null" {
		if err := eachMember(metadata, func(key, value []byte) {
			switch string(key) {
			case "namespace":
				namespace = value
			case "name":
				name = value
			case "uid":
				uid = value
			}
		}); err != nil {
			return Object{}, fmt.Errorf("metadata %w", err)
		}
	}
	for _, field := range []struct {
		name  string
		value []byte
		text  *string
	}{
		{"apiVersion", apiVersion, &object.APIVersion},
		{"kind", kind, &object.Kind},
		{"metadata.namespace", namespace, &object.Namespace},
		{"metadata.name", name, &object.Name},
		{"metadata.uid", uid, &object.UID},
	} {
		if err := text(field.name, field.value, field.text); err != nil {
			return Object{}, err
		}
	}
	return object, nil
}

// text decodes the string that value is into decoded; a value that is null or not there is the empty one.
func text(field string, value []byte, decoded *string) error {
	if value == nil || string(value) == "null" {
		return nil
	}
	if value[0] != '"' {
		return fmt.Errorf("%s is %s, want a string", field, clip(value))
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		*decoded = string(inner)
		return nil
	}
	if err := json.Unmarshal(value, decoded); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// clip is value, shortened for an error message.
func clip(value []byte) string {
	const enough = 40
	if len(value) > enough {
		return strings.ToValidUTF8(string(value[:enough]), "") + "..."
	}
	return string(value)
}
