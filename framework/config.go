package framework

import "github.com/cleat-dev/cleat/framework/internal/glue"

// WithConfig declares the configuration that an implementation takes, which a user writes as an object: T is a struct,
// or a map with string keys. It works alike for all kinds; only the place where users write the configuration differs
// (README.md). The constructor gets it from Config.
//
// The values of defaults apply to missing keys. The zero T has no defaults.
//
// A JSON Schema is derived from T, unless ConfigSchema gives one. The names of the keys are those of the json tags; a
// field without omitempty and without a default is required; a jsonschema tag describes the key to users. The host
// checks what users write against the schema when it starts, and reports file, line and key. In any host the plugin
// itself refuses keys that T has no field for, and values that the schema refuses.
//
// If T has a method
//
//	Validate() error
//
// it decides about all that a schema cannot say. The host calls it when it starts, and `cleat server --check` does;
// where it cannot, the constructor is not called and the call fails. InvalidKey says which key is wrong; errors.Join
// reports several. Validate must not use the network, and must not depend on the time.
//
// The configuration of an ObjectStore or a VolumeSnapshotter is that of a location, where all values are strings:
// fields of other types are converted, "true" and "5", and lists and objects are written as JSON.
func WithConfig[T any](defaults T, options ...ConfigOption) Option {
	var o configOptions
	for _, option := range options {
		option(&o)
	}
	return Option(glue.WithConfig(glue.NewConfigType(defaults, o.schema)))
}

// ConfigOption changes what WithConfig derives from the type.
type ConfigOption func(*configOptions)

type configOptions struct{ schema string }

// ConfigSchema gives the JSON Schema (draft 2020-12) of a configuration instead of the derived one. Its root is an
// object. Defaults in it apply.
func ConfigSchema(schema string) ConfigOption { return func(o *configOptions) { o.schema = schema } }

// InvalidKey returns err as an error about one key of a configuration, for a method Validate. The key is written as in
// the configuration, with dots and indexes for nested values: "rules[2].age". A nil err stays nil.
func InvalidKey(key string, err error) error { return glue.InvalidKey(key, err) }
