package config

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

const windowSchema = `{
	"type": "object", "additionalProperties": false, "required": ["zone"],
	"properties": {
		"zone": {"type": "string", "minLength": 1},
		"mode": {"enum": ["strict", "loose"]},
		"windows": {"type": "array", "items": {"$ref": "#/$defs/window"}},
		"from": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+h$"}]},
		"never": false,
		"sizes": {"propertyNames": {"pattern": "^[a-z]+$", "errorMessage": "want a lower-case name"}}
	},
	"$defs": {"window": {"type": "object", "additionalProperties": false, "properties": {"days": {"type": "integer", "maximum": 7}, "a/b": {}}}}
}`

// admission returns a file whose admission policy has config, which begins in line 5.
func admission(t *testing.T, config string) *File {
	t.Helper()
	text := "apiVersion: cleat.dev/v1\nbackups:\n  admission:\n    plugin: a.io/b\n"
	file, err := Parse("cleat.yaml", []byte(text+config))
	require.NoError(t, err)
	return file
}

func TestCheckReportsMismatchesWithFileLineAndKey(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config string
		want   string
	}{
		"it fits": {"    config:\n      zone: utc\n      mode: loose\n      windows: [{days: 7}]\n      from: 3\n",
			""},
		"none at all":    {"", "cleat.yaml:3: backups.admission.config.zone: is missing"},
		"one is missing": {"    config:\n      mode: loose\n", "cleat.yaml:5: backups.admission.config.zone: is missing"},
		"a typing error": {"    config:\n      zone: utc\n      windws: []\n",
			"cleat.yaml:7: backups.admission.config.windws: unknown key; known are from, mode, never, sizes, windows, zone"},
		"one below another": {"    config:\n      zone: utc\n      windows:\n      - {days: 1}\n      - days: 9\n",
			"cleat.yaml:9: backups.admission.config.windows[1].days: maximum: got 9, want 7"},
		"a key of another": {"    config:\n      zone: utc\n      windows:\n      - {day: 1}\n",
			"cleat.yaml:8: backups.admission.config.windows[0].day: unknown key; known are a/b, days"},
		"no choice": {"    config:\n      zone: utc\n      mode: odd\n",
			"cleat.yaml:7: backups.admission.config.mode: is the text \"odd\", want one of strict, loose"},
		"another type": {"    config:\n      zone: [utc]\n",
			"cleat.yaml:6: backups.admission.config.zone: is a list, want text; put it in quotes"},
		"none of several": {"    config: {zone: utc, from: soon}\n",
			"cleat.yaml:5: backups.admission.config.from: fits none of what is allowed: is the text \"soon\", want a whole " +
				"number; or 'soon' does not match pattern '^[0-9]+h$'"},
		"what never fits": {"    config: {zone: utc, never: 1}\n",
			"cleat.yaml:5: backups.admission.config.never: is not allowed here"},
		"a key's name": {"    config: {zone: utc, sizes: {x: 1, Y: 2}}\n",
			"cleat.yaml:5: backups.admission.config: has the key \"Y\", which is not allowed, want a lower-case name"},
		"two at once": {"    config:\n      zone: 5\n      mode: odd\n",
			"cleat.yaml:6: backups.admission.config.zone: is the number 5, want text; put it in quotes\n" +
				"cleat.yaml:7: backups.admission.config.mode: is the text \"odd\", want one of strict, loose"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			warnings, err := admission(t, test.config).Check(func(kind, name string) ([]byte, error) {
				require.Equal(t, "QueueAdmission a.io/b", kind+" "+name)
				return []byte(windowSchema), nil
			})
			require.Empty(t, warnings)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.want)
		})
	}
}

func TestCheckWarnsAboutABrokenSchema(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schema, want string }{
		"no JSON":       {`{`, "unexpected EOF"},
		"no schema":     {`{"type": "objekt"}`, "validation failed"},
		"a bad pattern": {`{"pattern": "("}`, "is not valid"},
		"elsewhere": {`{"$ref": "https://example.invalid/schema.json"}`,
			"refers to https://example.invalid/schema.json; a schema has to hold all it needs"},
		"a file":             {`{"$ref": "file:///etc/passwd"}`, "refers to file:///etc/passwd"},
		"nowhere":            {`{"$ref": "#/$defs/none"}`, "none"},
		"a draft of its own": {`{"$schema": "https://example.invalid/draft"}`, "example.invalid/draft"},
		"in a circle":        {`{"$ref": "#"}`, "cycle"},
		"in a circle around two": {`{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}`,
			"cycle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			warnings, err := admission(t, "    config: {a: 1}\n").Check(func(string, string) ([]byte, error) {
				return []byte(test.schema), nil
			})
			require.NoError(t, err)
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], "cleat.yaml:5: backups.admission.config: is not checked: the JSON Schema that "+
				"the plugin announces is broken: ")
			require.Contains(t, warnings[0], test.want)
		})
	}
}

func TestCheckWarnsAboutConfigWithoutASchema(t *testing.T) {
	t.Parallel()
	noSchema := func(string, string) ([]byte, error) { return nil, nil }
	warnings, err := admission(t, "    config: {a: 1}\n").Check(noSchema)
	require.NoError(t, err)
	require.Equal(t, []string{"cleat.yaml:5: backups.admission.config: is not checked: a.io/b announces no JSON Schema " +
		"for it"}, warnings)
	warnings, err = admission(t, "").Check(noSchema)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

func TestCheckReportsUnusablePluginsWithFileLineAndKey(t *testing.T) {
	t.Parallel()
	file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nbackups:\n  admission: {plugin: a.io/b}\n"+
		"  manifestWriters:\n  - plugin: a.io/c\n  - deadline: 1m\n    plugin: a.io/d\nnodeAgent: {soothing: {plugin: "+
		"a.io/e}}\n"))
	require.NoError(t, err)
	_, err = file.Check(func(kind, name string) ([]byte, error) { return nil, errors.New("no " + kind + " " + name) })
	require.EqualError(t, err, "cleat.yaml:3: backups.admission.plugin: no QueueAdmission a.io/b\n"+
		"cleat.yaml:5: backups.manifestWriters[0].plugin: no ManifestWriter a.io/c\n"+
		"cleat.yaml:7: backups.manifestWriters[1].plugin: no ManifestWriter a.io/d\n"+
		"cleat.yaml:8: nodeAgent.soothing.plugin: no LoadSoothing a.io/e")
}

func TestConfigIsConvertedToJSON(t *testing.T) {
	t.Parallel()
	file := admission(t, "    config:\n      text: yes\n      date: 2026-01-02\n      none: ~\n      truth: true\n      "+
		"big: 9007199254740993\n"+
		"      half: 0.5\n      hex: 0x10\n      list: [a, {b: c}]\n      lines: |\n        one\n        two\n")
	require.Equal(t, `{"big":9007199254740993,"date":"2026-01-02","half":0.5,"hex":16,"lines":"one\ntwo\n","list":["a",{"b":"c"}],"none":null,"text":"yes","truth":true}`,
		string(file.Backups.Admission.Config.JSON))
	require.Equal(t, "{}", string(Object{}.Bytes()))
}

// FuzzSchema verifies that no schema and no configuration makes Check panic.
func FuzzSchema(f *testing.F) {
	f.Add(windowSchema, `{"zone": "utc"}`)
	f.Add(`{"$dynamicRef": "#x", "unevaluatedProperties": false}`, `{"a": [1, {}]}`)
	f.Add(`{"$id": "https://example.invalid/", "oneOf": [{"not": {}}, {"const": null}]}`, `{}`)
	f.Add(`true`, `{"a": 1}`)
	f.Fuzz(func(t *testing.T, schema, config string) {
		if !json.Valid([]byte(config)) {
			return
		}
		err := Object{JSON: []byte(config)}.Check([]byte(schema))
		if err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}
