package documents_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// schema is the part of a JSON Schema that the reference shows.
type schema struct {
	Ref                  string             `json:"$ref"`
	Defs                 map[string]*schema `json:"$defs"`
	Description          string
	Type                 any // a string or a list of them
	Default, Const       any
	Enum                 []any
	Format, ErrorMessage string
	Minimum, Maximum     *float64
	Properties           map[string]*schema
	Items                *schema
	AdditionalProperties any
}

// key is a key of the config file.
type key struct {
	path   string // such as "backups.manifestWriters[].plugin"
	schema *schema
}

// readKeys returns the keys of the config file in alphabetical order of their paths.
func readKeys(t *testing.T) (keys []key) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "server", "internal", "spec", "config", "file.schema.json"))
	require.NoError(t, err)
	file := &schema{}
	require.NoError(t, json.Unmarshal(text, file))
	var walk func(path string, s *schema)
	walk = func(path string, s *schema) {
		if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
			s = merge(s, file.Defs[name])
		}
		if path != "" && (s.Description != "" || len(s.Properties) == 0) {
			keys = append(keys, key{path: path, schema: s})
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			walk(strings.TrimPrefix(path+"."+name, "."), s.Properties[name])
		}
		if s.Items != nil {
			items := s.Items
			if name, ok := strings.CutPrefix(items.Ref, "#/$defs/"); ok {
				items = file.Defs[name]
			}
			for _, name := range slices.Sorted(maps.Keys(items.Properties)) {
				walk(path+"[]."+name, items.Properties[name])
			}
		}
		if more, ok := s.AdditionalProperties.(map[string]any); ok && more["properties"] != nil {
			encoded, err := json.Marshal(more)
			require.NoError(t, err)
			each := &schema{}
			require.NoError(t, json.Unmarshal(encoded, each))
			for _, name := range slices.Sorted(maps.Keys(each.Properties)) {
				walk(path+".NAME."+name, each.Properties[name])
			}
		}
	}
	walk("", file)
	return keys
}

// merge returns the definition, merged with the keys beside the reference to it.
func merge(s, definition *schema) *schema {
	merged := *definition
	if s.Description != "" {
		merged.Description = s.Description
	}
	if s.Default != nil {
		merged.Default = s.Default
	}
	return &merged
}

// value describes the valid values of a key.
func (s *schema) value() string {
	switch {
	case s.Const != nil:
		return fmt.Sprint(s.Const)
	case len(s.Enum) > 0:
		var all []string
		for _, v := range s.Enum {
			all = append(all, fmt.Sprint(v))
		}
		return strings.Join(all, " or ")
	case strings.HasPrefix(s.ErrorMessage, "want "):
		return strings.TrimPrefix(s.ErrorMessage, "want ")
	}
	types, _ := s.Type.([]any)
	if one, ok := s.Type.(string); ok {
		types = []any{one}
	}
	types = slices.DeleteFunc(types, func(v any) bool { return v == "null" })
	if len(types) == 0 {
		return ""
	}
	name := map[string]string{"array": "list", "string": "text"}[fmt.Sprint(types[0])]
	if name == "" {
		name = fmt.Sprint(types[0])
	}
	isText := func(s *schema) bool {
		return s.Type == "string" || s.Ref == "#/$defs/text" || s.Ref == "#/$defs/pluginName"
	}
	if s.Items != nil && isText(s.Items) {
		name = "list of texts"
	}
	return name
}

// TestDocumentsConfig checks that the reference lists each key of the config file, and only those.
func TestDocumentsConfig(t *testing.T) {
	t.Parallel()
	page := &strings.Builder{}
	page.WriteString("# Keys of the config file\n\n" +
		"`cleat server --config FILE` and `cleat node-agent server --config FILE` read this file. In a path, `[]`\n" +
		"stands for each element of a list, and `NAME` for each key of a mapping. A key without a default is not\n" +
		"set, or has a default that the meaning names. The annotated\n" +
		"[example](../../../examples/config/cleat.yaml) has all keys.\n\n")
	page.WriteString(tableHead("key", "value", "default", "meaning"))
	listed := map[string]bool{}
	for _, k := range readKeys(t) {
		require.NotEmpty(t, k.schema.Description, "%s has no description in file.schema.json", k.path)
		byDefault := ""
		if k.schema.Default != nil {
			byDefault = fmt.Sprint(k.schema.Default)
		}
		page.WriteString(tableRow(code(k.path), escape(k.schema.value()), code(byDefault), escape(k.schema.Description)))
		listed[k.path] = true
	}
	for _, path := range fields(reflect.TypeFor[config.File](), "") {
		require.True(t, listed[path], "config.File has the field %s, which file.schema.json lacks or does not describe", path)
	}
	checkReference(t, "config.md", page.String())
}

// fields returns the paths of the fields of a struct that have values of their own.
func fields(of reflect.Type, path string) (all []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		name := field.Tag.Get("yaml")
		if name == "" || name == "-" || !field.IsExported() {
			continue
		}
		if field.Type.Kind() == reflect.Struct {
			all = append(all, fields(field.Type, path+name+".")...)
			continue
		}
		all = append(all, path+name)
	}
	return all
}

// TestDocumentsDefaults compares the defaults in the schema of the config file with those of the code.
func TestDocumentsDefaults(t *testing.T) {
	t.Parallel()
	defaults := map[string]any{}
	for _, k := range readKeys(t) {
		defaults[k.path] = k.schema.Default
	}
	options := config.Defaults()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.AddFlags(flags)
	for path, name := range map[string]string{
		"backups.concurrent": "concurrent-backups", "backups.attempts": "backup-attempts",
		"restores.concurrent": "concurrent-restores", "restores.attempts": "restore-attempts",
		"plugins.directory": "plugin-dir", "plugins.isolateBuiltIns": "isolate-built-ins",
	} {
		require.Equal(t, flags.Lookup(name).DefValue, fmt.Sprint(defaults[path]), path)
	}
	for path, want := range map[string]time.Duration{
		"backups.admission.deadline": policy.DecisionDeadline, "nodeAgent.soothing.deadline": policy.DecisionDeadline,
		"backups.manifestWriters[].deadline": policy.ManifestDeadline,
	} {
		text, ok := defaults[path].(string)
		require.True(t, ok, path)
		got, err := time.ParseDuration(text)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}
}
