package framework

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Option says more about an implementation than its kind and name. The Register functions of the kinds for which it
// makes sense take options.
type Option func(*details)

// details is what options say about one implementation.
type details struct {
	configSchema []byte
}

func (d details) check() error {
	if d.configSchema == nil {
		return nil
	}
	var schema map[string]json.RawMessage
	if err := json.Unmarshal(d.configSchema, &schema); err != nil {
		return fmt.Errorf("the schema of its config is no JSON object: %w", err)
	}
	if schema == nil {
		return errors.New("the schema of its config is null, want a JSON object")
	}
	return nil
}

// WithConfigSchema tells the host which configuration the implementation takes: a JSON Schema (draft 2020-12), whose
// root is an object. The host then refuses what users write wrong when it starts, with file and line, and the
// implementation gets nothing else. See DecodeConfig.
func WithConfigSchema(schema string) Option {
	return func(d *details) { d.configSchema = []byte(schema) }
}
