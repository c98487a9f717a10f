package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// BrokenSchemaError reports that the schema of a plugin's configuration is invalid, so that no configuration can be
// checked against it.
type BrokenSchemaError struct{ Reason error }

func (e *BrokenSchemaError) Error() string {
	return fmt.Sprintf("the JSON Schema that the plugin announces is broken: %v", e.Reason)
}

// Unwrap returns the reason.
func (e *BrokenSchemaError) Unwrap() error { return e.Reason }

// Check validates the object against the JSON Schema (draft 2020-12 unless it names another one) that a plugin
// announces. The error lists all mismatches, each with file, line and key; it is a *BrokenSchemaError if the schema
// cannot be used. Without a schema every object is valid. References outside the schema are not followed.
func (o Object) Check(schema []byte) error {
	found, err := o.match(schema, nil)
	if err != nil {
		return err
	}
	return found.err()
}

// match is Check with the mismatches apart from the error that prevents the check. Only the given formats are checked.
func (o Object) match(schema []byte, formats []*jsonschema.Format) (problems, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	rules, document, err := compile(schema, formats)
	if err != nil {
		return nil, &BrokenSchemaError{Reason: err}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(o.Bytes()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.position.key, err)
	}
	var broken *jsonschema.ValidationError
	switch err := validate(rules, value); {
	case err == nil:
		return nil, nil
	case !errors.As(err, &broken), hasCycle(broken):
		return nil, &BrokenSchemaError{Reason: err}
	}
	var found problems
	v := violations{object: o, schema: document, found: &found, printer: message.NewPrinter(language.English)}
	v.add(broken)
	return found, nil
}

// schemaURL is the name of the schema while it is compiled.
const schemaURL = "plugin:config"

// noLoader rejects references to other documents.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %s; a schema has to hold all it needs", url)
}

func compile(schema []byte, formats []*jsonschema.Format) (rules *jsonschema.Schema, document any, err error) {
	defer recovered(&err)
	if document, err = jsonschema.UnmarshalJSON(bytes.NewReader(schema)); err != nil {
		return nil, nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	for _, format := range formats {
		compiler.RegisterFormat(format)
		compiler.AssertFormat()
	}
	if err = compiler.AddResource(schemaURL, document); err != nil {
		return nil, nil, err
	}
	rules, err = compiler.Compile(schemaURL)
	return rules, document, err
}

func validate(rules *jsonschema.Schema, value any) (err error) {
	defer recovered(&err)
	return rules.Validate(value)
}

// recovered turns a panic of the validator into an error, because a schema may come from anywhere.
func recovered(err *error) {
	if value := recover(); value != nil {
		*err = fmt.Errorf("panic: %v", value)
	}
}

// hasCycle reports whether a reference leads to itself, which is found only while a value is validated.
func hasCycle(e *jsonschema.ValidationError) bool {
	_, cycle := e.ErrorKind.(*kind.RefCycle)
	return cycle || slices.ContainsFunc(e.Causes, hasCycle)
}
