package config

import (
	"context"
	"strings"
)

// Fault is one mistake in the configuration of a plugin, found by the plugin itself.
type Fault struct {
	Key     string // within the configuration, with dots and indexes: "rules[2].age"; empty for the whole
	Message string
}

// Validate lets the plugins that the file names check their configuration, which Check has compared with their schemas.
// ask calls the plugin; an error means that the plugin could not answer, which is a warning. The error of Validate
// lists all mistakes, each with file, line and key.
func (f *File) Validate(
	ctx context.Context, ask func(ctx context.Context, kind, name string, config []byte) ([]Fault, error),
) (warnings []string, err error) {
	var found, unchecked problems
	for _, named := range f.Named() {
		object := named.Policy.Config
		faults, err := ask(ctx, named.Kind, named.Policy.Plugin, object.Bytes())
		if err != nil {
			unchecked.add(object.position, "is not checked by its plugin: %v", err)
			continue
		}
		for _, fault := range faults {
			found.add(object.locate(tokens(fault.Key)), "%s", fault.Message)
		}
	}
	return unchecked.texts(), found.err()
}

// tokens splits a key into keys and list indexes: "rules[2].age" is rules, 2, age.
func tokens(key string) []string {
	return strings.FieldsFunc(key, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}
