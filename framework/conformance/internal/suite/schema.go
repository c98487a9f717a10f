package suite

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CompileSchema compiles a config schema.
func CompileSchema(raw []byte) (*jsonschema.Schema, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	const name = "config.json"
	if err := compiler.AddResource(name, document); err != nil {
		return nil, err
	}
	return compiler.Compile(name)
}

// FitsSchema validates a config against the schema that a plugin announces. Every config is valid if there is no
// schema.
func FitsSchema(raw, config []byte) error {
	if len(raw) == 0 {
		return nil
	}
	schema, err := CompileSchema(raw)
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	if err != nil {
		return err
	}
	return schema.Validate(document)
}
