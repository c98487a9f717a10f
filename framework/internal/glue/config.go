package glue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// ConfigType is the configuration that an implementation takes: a Go type, its JSON Schema and its defaults. A nil
// *ConfigType stands for an implementation that takes none.
type ConfigType struct {
	schema   *jsonschema.Schema
	encoded  []byte // the schema as JSON
	resolved *jsonschema.Resolved
	into     func(raw []byte) (any, error) // strict
	err      error                         // why the type or its schema cannot be used
}

// NewConfigType returns the ConfigType of T with defaults, which may be zero. An empty schema is derived from T.
func NewConfigType[T any](defaults T, schema string) *ConfigType {
	c := &ConfigType{into: func(raw []byte) (any, error) { return decodeStrict[T](raw) }}
	if c.schema, c.err = schemaOf[T](schema); c.err != nil {
		return c
	}
	if c.err = addDefaults(c.schema, defaults); c.err != nil {
		return c
	}
	if c.encoded, c.err = json.Marshal(c.schema); c.err != nil {
		return c
	}
	if c.resolved, c.err = c.schema.Resolve(&jsonschema.ResolveOptions{
		ValidateDefaults: true,
		// References to other documents are not followed; a host reports that it cannot check them.
		Loader: func(*url.URL) (*jsonschema.Schema, error) { return &jsonschema.Schema{}, nil },
	}); c.err != nil {
		c.err = fmt.Errorf("the schema of the config: %w", c.err)
	}
	return c
}

// Schema returns the JSON Schema; nil when there is no configuration.
func (c *ConfigType) Schema() []byte {
	if c == nil {
		return nil
	}
	return c.encoded
}

// configError is an invalid configuration.
type configError struct{ problems []configProblem }

// configProblem is one fault of a configuration.
type configProblem struct {
	key string // with dots and indexes; empty for the whole
	err error
}

// Error implements error.
func (e *configError) Error() string {
	texts := make([]string, 0, len(e.problems))
	for _, problem := range e.problems {
		text := problem.err.Error()
		if problem.key != "" {
			text = problem.key + ": " + text
		}
		texts = append(texts, text)
	}
	return "config: " + strings.Join(texts, "; ")
}

// Is implements errors.Is: an invalid configuration matches ErrInvalid.
func (e *configError) Is(target error) bool { return target == ErrInvalid } //nolint:errorlint // this is what errors.Is calls

// Unwrap returns the problems for errors.Is and errors.As.
func (e *configError) Unwrap() []error {
	causes := make([]error, 0, len(e.problems))
	for _, problem := range e.problems {
		causes = append(causes, problem.err)
	}
	return causes
}

func badConfig(err error) error { return &configError{problems: []configProblem{{err: err}}} }

// keyError is an error about one key, for Validate.
type keyError struct {
	key string
	err error
}

// Error implements error.
func (e *keyError) Error() string { return e.key + ": " + e.err.Error() }

// Unwrap implements errors.Unwrap.
func (e *keyError) Unwrap() error { return e.err }

// InvalidKey returns err as an error about one key of a configuration; nil stays nil.
func InvalidKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return &keyError{key: key, err: err}
}

// decode strictly decodes a JSON object, applies the defaults and validates the result. Empty JSON and null count as an
// empty object. Its errors are of type *configError.
func (c *ConfigType) decode(raw []byte) (any, error) {
	given, err := decodeStrict[map[string]any](raw)
	if err != nil {
		return nil, badConfig(err)
	}
	if c == nil {
		if len(given) > 0 {
			return nil, badConfig(fmt.Errorf("unknown key %q, this plugin takes no configuration",
				slices.Min(slices.Collect(maps.Keys(given)))))
		}
		return nil, nil //nolint:nilnil // there is no configuration and that is right
	}
	if given == nil {
		given = map[string]any{}
	}
	if err := c.unknownKey(given); err != nil {
		return nil, badConfig(err)
	}
	if len(raw) > 0 { // before the defaults are applied, so that errors concern what was written
		if _, err := c.into(raw); err != nil {
			return nil, badConfig(err)
		}
	}
	if err := c.resolved.ApplyDefaults(&given); err != nil {
		return nil, badConfig(err)
	}
	if err := c.resolved.Validate(given); err != nil {
		return nil, badConfig(err)
	}
	complete, err := json.Marshal(given)
	if err != nil {
		return nil, badConfig(err)
	}
	decoded, err := c.into(complete)
	if err != nil {
		return nil, badConfig(err)
	}
	return decoded, validate(decoded)
}

// open reports whether the configuration may have keys that its schema does not name.
func (c *ConfigType) open() bool {
	return c != nil && (c.schema.AdditionalProperties == nil || c.schema.AdditionalProperties.Not == nil)
}

// unknownKey returns an error that names the first unknown key and the known ones.
func (c *ConfigType) unknownKey(given map[string]any) error {
	if c.open() {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if c.schema.Properties[key] != nil {
			continue
		}
		if len(c.schema.Properties) == 0 {
			return fmt.Errorf("unknown key %q, there are no keys", key)
		}
		return fmt.Errorf("unknown key %q, want one of %s", key, strings.Join(slices.Sorted(maps.Keys(c.schema.Properties)),
			", "))
	}
	return nil
}

// validate calls the method Validate of a configuration, if it has one.
func validate(decoded any) error {
	validator, ok := decoded.(interface{ Validate() error })
	if !ok { // the method may have a pointer receiver
		pointer := reflect.New(reflect.TypeOf(decoded))
		pointer.Elem().Set(reflect.ValueOf(decoded))
		if validator, ok = pointer.Interface().(interface{ Validate() error }); !ok {
			return nil
		}
	}
	err := validator.Validate()
	if err == nil {
		return nil
	}
	faults := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // errors.Join, not one inside of another error
		faults = joined.Unwrap()
	}
	var problems []configProblem
	for _, fault := range faults {
		problem := configProblem{err: fault}
		if keyed, ok := fault.(*keyError); ok { //nolint:errorlint // the text around it would be lost
			problem = configProblem{key: keyed.key, err: keyed.err}
		}
		problems = append(problems, problem)
	}
	return &configError{problems: problems}
}

// fromStrings returns the JSON of a configuration whose values are strings, as for locations. It converts "true" and
// "5" to the types in the schema; lists and objects are written as JSON. It omits hostKeys for which the type has no
// field.
func (c *ConfigType) fromStrings(config map[string]string, hostKeys []string) ([]byte, error) {
	values := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		var property *jsonschema.Schema
		if c != nil {
			property = c.schema.Properties[key]
		}
		if property == nil && slices.Contains(hostKeys, key) && !c.open() {
			continue
		}
		value, given, err := fromString(config[key], property)
		if err != nil {
			return nil, &configError{problems: []configProblem{{key: key, err: err}}}
		}
		if given {
			values[key] = value
		}
	}
	return json.Marshal(values)
}

// fromString converts text to a value of the given type. An empty text is not a value unless a string is expected.
func fromString(text string, property *jsonschema.Schema) (value any, given bool, err error) {
	wanted := typeOf(property)
	if wanted != "string" && text == "" {
		return nil, false, nil
	}
	switch wanted {
	case "boolean":
		value, err = strconv.ParseBool(text)
		if err != nil {
			err = fmt.Errorf("%q, want \"true\" or \"false\"", text)
		}
	case "integer":
		value, err = strconv.ParseInt(text, 10, 64)
		if err != nil {
			err = fmt.Errorf("%q, want a whole number", text)
		}
	case "number":
		value, err = strconv.ParseFloat(text, 64)
		if err != nil {
			err = fmt.Errorf("%q, want a number", text)
		}
	case "array", "object":
		if err = json.Unmarshal([]byte(text), &value); err != nil {
			err = fmt.Errorf("%q, want JSON of an %s", text, wanted)
		}
	default:
		value = text
	}
	return value, true, err
}

// typeOf returns the one type that a property has besides null; "string" when it has none or several.
func typeOf(property *jsonschema.Schema) string {
	if property == nil {
		return "string"
	}
	if property.Type != "" {
		return property.Type
	}
	if types := slices.DeleteFunc(slices.Clone(property.Types), func(name string) bool { return name == "null" }); len(
		types,
	) == 1 {
		return types[0]
	}
	return "string"
}

// decodeStrict decodes one JSON object into a T and rejects keys without a field in T. Empty JSON decodes to the zero
// T.
func decodeStrict[T any](raw []byte) (T, error) {
	var config, none T
	if len(raw) == 0 {
		return config, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&config)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = errors.New("there is more after its end")
		}
	}
	if err != nil {
		return none, readable(err)
	}
	return config, nil
}

// readable rewords an error of encoding/json for users without knowledge of Go.
func readable(err error) error {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		wanted := fmt.Errorf("want %s, got %s", jsonWord(mistyped.Type), mistyped.Value)
		if mistyped.Field != "" {
			wanted = fmt.Errorf("key %q: %w", mistyped.Field, wanted)
		}
		return wanted
	}
	if key, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return fmt.Errorf("unknown key %s", key)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}

// jsonWord returns the JSON name of a Go type.
func jsonWord(wanted reflect.Type) string {
	switch wanted.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number in the range of " + wanted.String()
	}
}
