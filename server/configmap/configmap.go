// Package configmap reads the documents that users hand to the server in ConfigMaps: rules for a
// restore, policies for a backup. Velero's form of these is one key, whatever its name, with a YAML
// document that has no field that is not known.
//
// It imports the types of Kubernetes and a YAML parser, nothing of ours.
package configmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Kind is how specs name the kind of the object with the document, in any case of letters.
const Kind = "ConfigMap"

// IsKind says whether a kind in a spec is that of ConfigMaps.
func IsKind(kind string) bool { return strings.EqualFold(kind, Kind) }

// Document is the text under the only key of the ConfigMap.
func Document(cm *corev1.ConfigMap) ([]byte, error) {
	keys := slices.Sorted(maps.Keys(cm.Data))
	switch {
	case len(keys) == 1:
		return []byte(cm.Data[keys[0]]), nil
	case len(keys) > 1:
		return nil, fmt.Errorf("it has %d keys in data (%s), want exactly one with the YAML document", len(keys), strings.Join(keys, ", "))
	case len(cm.BinaryData) > 0:
		return nil, errors.New("its document is in binaryData, want YAML text under exactly one key in data")
	default:
		return nil, errors.New("it has no key in data, want exactly one with the YAML document")
	}
}

// Decode reads YAML, or JSON, strictly: unknown fields and fields that stand there twice are errors.
func Decode[T any](document []byte) (T, error) {
	var value T
	if err := yaml.UnmarshalStrict(document, &value); err != nil {
		return value, plain(err)
	}
	return value, nil
}

// JSON makes JSON of YAML. A field that stands there twice is an error.
func JSON(document []byte) ([]byte, error) {
	out, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, plain(err)
	}
	return out, nil
}

// plain is an error of the YAML library in one line, without what the reader of it does not care for.
func plain(err error) error {
	text := err.Error()
	for _, noise := range []string{"error unmarshaling JSON: ", "while decoding JSON: ", "error converting YAML to JSON: "} {
		text = strings.TrimPrefix(text, noise)
	}
	return errors.New(strings.Join(strings.Fields(text), " "))
}
