// Package configmap reads the YAML documents that users store in ConfigMaps: resource modifiers for a restore and
// resource policies for a backup. As in Velero, such a ConfigMap has exactly one key, with any name, and the document
// must not have unknown fields.
//
// The package imports the types of Kubernetes and a YAML parser, and no other package of the server. Start with
// Document.
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

// Ledger is the name of the ConfigMap in which the node agents of an installation record the loads that they have
// admitted; see node/ledger.
const Ledger = "cleat-node-agents"

// Kind is the kind that the specs of backups and restores name in a reference. Its case does not matter.
const Kind = "ConfigMap"

// IsKind reports whether a kind in a spec means a ConfigMap.
func IsKind(kind string) bool { return strings.EqualFold(kind, Kind) }

// Document returns the value of the only key of the ConfigMap.
func Document(cm *corev1.ConfigMap) ([]byte, error) {
	keys := slices.Sorted(maps.Keys(cm.Data))
	switch {
	case len(keys) == 1:
		return []byte(cm.Data[keys[0]]), nil
	case len(keys) > 1:
		return nil, fmt.Errorf("it has %d keys in data (%s), want exactly one with the YAML document", len(keys),
			strings.Join(keys, ", "))
	case len(cm.BinaryData) > 0:
		return nil, errors.New("its document is in binaryData, want YAML text under exactly one key in data")
	default:
		return nil, errors.New("it has no key in data, want exactly one with the YAML document")
	}
}

// Decode decodes YAML or JSON. It returns an error for unknown and for duplicate fields.
func Decode[T any](document []byte) (T, error) {
	var value T
	if err := yaml.UnmarshalStrict(document, &value); err != nil {
		return value, oneLine(err)
	}
	return value, nil
}

// JSON converts YAML to JSON. It returns an error for duplicate fields.
func JSON(document []byte) ([]byte, error) {
	out, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, oneLine(err)
	}
	return out, nil
}

// oneLine returns an error of the YAML library in one line, without the library's prefixes.
func oneLine(err error) error {
	text := err.Error()
	for _, noise := range []string{"error unmarshaling JSON: ", "while decoding JSON: ",
		"error converting YAML to JSON: "} {
		text = strings.TrimPrefix(text, noise)
	}
	return errors.New(strings.Join(strings.Fields(text), " "))
}
