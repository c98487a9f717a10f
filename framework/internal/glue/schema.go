package glue

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// schemaOf returns the schema of a configuration: the given one, or the one derived from T.
func schemaOf[T any](given string) (*jsonschema.Schema, error) {
	if given == "" {
		derived, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[metav1.Duration](): {Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`},
		}})
		if err != nil {
			return nil, fmt.Errorf("derive the schema of the config: %w", err)
		}
		if derived.Type != "object" {
			return nil, fmt.Errorf("a config is an object, and %s is not: want a struct, or a map with string keys",
				reflect.TypeFor[T]())
		}
		return derived, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(given), &members); err != nil {
		return nil, fmt.Errorf("the schema of its config is not a JSON object: %w", err)
	}
	if members == nil {
		return nil, errors.New("the schema of its config is null, want a JSON object")
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(given), &schema); err != nil {
		return nil, fmt.Errorf("the schema of its config: %w", err)
	}
	return &schema, nil
}

// addDefaults adds the non-zero values of defaults to the schema. Keys with a default are not required.
func addDefaults(schema *jsonschema.Schema, defaults any) error {
	encoded, err := json.Marshal(defaults)
	if err != nil {
		return fmt.Errorf("the defaults of the config: %w", err)
	}
	var values map[string]any
	if err := json.Unmarshal(encoded, &values); err != nil {
		return fmt.Errorf("the defaults of the config are not JSON object: %w", err)
	}
	return addDefaultsTo(schema, values)
}

func addDefaultsTo(schema *jsonschema.Schema, values map[string]any) error {
	for key, value := range values {
		property := schema.Properties[key]
		if property == nil || isZero(value) {
			continue
		}
		if nested, ok := value.(map[string]any); ok && len(property.Properties) > 0 {
			if err := addDefaultsTo(property, nested); err != nil {
				return err
			}
		} else {
			encoded, err := json.Marshal(value)
			if err != nil {
				return err
			}
			property.Default = encoded
		}
		schema.Required = slices.DeleteFunc(schema.Required, func(name string) bool { return name == key })
	}
	return nil
}

// isZero reports whether a JSON value is the encoding of an unset field, at any depth.
func isZero(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, member := range value {
			if !isZero(member) {
				return false
			}
		}
		return true
	case []any:
		return len(value) == 0
	default:
		return reflect.ValueOf(value).IsZero()
	}
}
