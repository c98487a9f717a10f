package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// BrokenSchemaError says that the schema of a plugin's configuration is wrong itself, so that nothing can be checked
// against it. That is no fault of the configuration.
type BrokenSchemaError struct{ Reason error }

func (e *BrokenSchemaError) Error() string {
	return fmt.Sprintf("the JSON Schema that the plugin announces is broken: %v", e.Reason)
}

// Unwrap gives the reason.
func (e *BrokenSchemaError) Unwrap() error { return e.Reason }

// Check holds the object against the JSON Schema (draft 2020-12 unless it says otherwise) that a plugin announces. The
// error has everything that does not fit, each with file, line and key; it is a *BrokenSchemaError when the schema
// cannot be used. No schema fits everything. References beyond the schema are not followed.
func (o Object) Check(schema []byte) error {
	found, err := o.check(schema)
	if err != nil {
		return err
	}
	return found.err()
}

// check is Check with what does not fit apart from what keeps it from being checked.
func (o Object) check(schema []byte) (problems, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	rules, document, err := compile(schema)
	if err != nil {
		return nil, &BrokenSchemaError{Reason: err}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(o.Bytes()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.place.key, err)
	}
	var broken *jsonschema.ValidationError
	switch err := validate(rules, value); {
	case err == nil:
		return nil, nil
	case !errors.As(err, &broken), goesInCircles(broken):
		return nil, &BrokenSchemaError{Reason: err}
	}
	var found problems
	v := violations{object: o, schema: document, found: &found, words: message.NewPrinter(language.English)}
	v.add(broken)
	return found, nil
}

// schemaURL is what the schema is called while it is compiled.
const schemaURL = "plugin:config"

// noLoader keeps schemas from reaching beyond themselves.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %s; a schema has to hold all it needs", url)
}

func compile(schema []byte) (rules *jsonschema.Schema, document any, err error) {
	defer recovered(&err)
	if document, err = jsonschema.UnmarshalJSON(bytes.NewReader(schema)); err != nil {
		return nil, nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
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

// recovered makes a panic over a schema, which is foreign, an error.
func recovered(err *error) {
	if value := recover(); value != nil {
		*err = fmt.Errorf("panic: %v", value)
	}
}

// goesInCircles tells whether a reference leads to itself, which is found only when it is followed.
func goesInCircles(e *jsonschema.ValidationError) bool {
	_, circle := e.ErrorKind.(*kind.RefCycle)
	return circle || slices.ContainsFunc(e.Causes, goesInCircles)
}

// violations tells in which places an object does not fit a schema.
type violations struct {
	object Object
	schema any
	found  *problems
	words  *message.Printer
}

func (v violations) problem(location []string, format string, args ...any) {
	v.found.add(v.object.locate(location), format, args...)
}

func (v violations) add(e *jsonschema.ValidationError) {
	switch what := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, property := range what.Properties {
			v.problem(append(slices.Clone(e.InstanceLocation), property), "unknown key%s", v.knownAt(e.SchemaURL))
		}
	case *kind.Required:
		for _, property := range what.Missing {
			v.problem(append(slices.Clone(e.InstanceLocation), property), "is missing")
		}
	case *kind.AnyOf, *kind.OneOf:
		v.problem(e.InstanceLocation, "%s", v.alternatives(e))
	default:
		for _, cause := range e.Causes {
			v.add(cause)
		}
		if len(e.Causes) == 0 {
			v.problem(e.InstanceLocation, "%s", v.sentence(e))
		}
	}
}

// sentence is what is wrong in one place.
func (v violations) sentence(e *jsonschema.ValidationError) string {
	if _, never := e.ErrorKind.(*kind.FalseSchema); never {
		return "is not allowed here"
	}
	return e.ErrorKind.LocalizedString(v.words)
}

// alternatives is what is wrong where one of several schemas has to fit.
func (v violations) alternatives(e *jsonschema.ValidationError) string {
	if len(e.Causes) == 0 {
		return v.sentence(e)
	}
	var each problems
	for _, cause := range e.Causes {
		inner := v
		inner.found = &each
		inner.add(cause)
	}
	var words []string
	for _, problem := range each {
		text := problem.Message
		if inside, deeper := strings.CutPrefix(problem.Key, v.object.locate(e.InstanceLocation).key); deeper && inside != "" {
			text = strings.TrimPrefix(inside, ".") + " " + text
		}
		if !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	return "fits none of what is allowed: " + strings.Join(words, "; or ")
}

// knownAt is "; known are ..." with the properties of the schema at url.
func (v violations) knownAt(url string) string {
	_, pointer, _ := strings.Cut(url, "#")
	at := v.schema
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if table, ok := at.(map[string]any); ok && token != "" {
			at = table[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
		}
	}
	table, _ := at.(map[string]any)
	properties, _ := table["properties"].(map[string]any)
	if len(properties) == 0 {
		return ""
	}
	return "; known are " + strings.Join(slices.Sorted(maps.Keys(properties)), ", ")
}
