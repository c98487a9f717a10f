package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const example = "../../examples/config/cleat.yaml"

func TestTheExampleHoldsEveryKey(t *testing.T) {
	t.Parallel()
	file, err := ReadFile(example)
	require.NoError(t, err)
	requireFilled(t, "", reflect.ValueOf(*file))
	require.Equal(t, 10*time.Second, file.Backups.Admission.Deadline)
	require.Equal(t, UseBuiltIn, file.NodeAgent.Soothing.FailurePolicy)
	require.JSONEq(t, `{"loads":10}`, string(file.NodeAgent.Soothing.Config.JSON))
	require.Equal(t, Size(256<<20), file.Plugins.Limits.MessageSize)
	require.Equal(t, time.Hour, file.Plugins.Deadlines.Kinds["BackupItemAction"])
}

// requireFilled requires that every key below path has a value that is not zero, but for switches.
func requireFilled(t *testing.T, path string, value reflect.Value) {
	t.Helper()
	for _, f := range fieldsOf(value.Type()) {
		at, field := below(path, f.key), value.Field(f.index)
		object, isObject := field.Interface().(Object)
		switch {
		case isObject:
			require.NotNil(t, object.JSON, at)
		case field.Kind() == reflect.Struct:
			requireFilled(t, at, field)
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			require.NotZero(t, field.Len(), at)
			requireFilled(t, at+"[0]", field.Index(0))
		case field.Kind() != reflect.Bool:
			require.False(t, field.IsZero(), "%s does not stand in %s", at, example)
		}
	}
}

// TestTheTagsOfEveryFieldAreOnesThatTheReaderKnows finds the tag with a typing error, and the field of a type that
// cannot be read.
func TestTheTagsOfEveryFieldAreOnesThatTheReaderKnows(t *testing.T) {
	t.Parallel()
	known := []string{"key", "required", "oneOf", "check", "keys", "min", "max", "none", "unique", "flag"}
	flags := flagSet()
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		if of == reflect.TypeFor[Object]() {
			return
		}
		for _, f := range fieldsOf(of) {
			for tag := range strings.FieldsSeq(string(f.tag)) {
				name, _, _ := strings.Cut(tag, ":")
				require.Contains(t, known, name, "%s.%s", of, f.key)
			}
			if flag := f.tag.Get("flag"); flag != "" {
				require.NotNil(t, flags.Lookup(flag), flag)
			}
			field := of.Field(f.index).Type
			for field.Kind() == reflect.Slice || field.Kind() == reflect.Map {
				field = field.Elem()
			}
			switch field.Kind() {
			case reflect.Struct:
				walk(field)
			default:
				require.Contains(t, []reflect.Kind{reflect.Bool, reflect.Int, reflect.Int64, reflect.String}, field.Kind(), f.key)
			}
		}
	}
	walk(reflect.TypeFor[File]())
}

func flagSet() *pflag.FlagSet {
	options := Defaults()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	options.AddFlags(flags)
	return flags
}

func TestMistakesAreNamedWithFileLineAndKey(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string // after apiVersion, from line 2 on
		want []string
	}{
		"a typing error": {"backups:\n  admission:\n    plugn: a.io/b\n", []string{
			"cleat.yaml:4: backups.admission.plugin: is missing",
			"cleat.yaml:4: backups.admission.plugn: unknown key; known are plugin, deadline, failurePolicy, config",
		}},
		"at the root":       {"backup: {}\n", []string{"cleat.yaml:2: backup: unknown key; known are apiVersion, backups, nodeAgent, plugins, restores, tracing"}},
		"a key twice":       {"tracing: {}\nbackups: {}\ntracing: {}\n", []string{"cleat.yaml:4: tracing: is set a second time, the first is in line 2"}},
		"no duration":       {"plugins: {deadlines: {query: 30}}\n", []string{`cleat.yaml:2: plugins.deadlines.query: is "30", want a duration such as 30s, 10m or 4h, or none`}},
		"a negative one":    {"plugins: {deadlines: {query: -1s}}\n", []string{"cleat.yaml:2: plugins.deadlines.query: is -1s, want at least 1ms"}},
		"no time at all":    {"plugins: {restart: {base: 0s}}\n", []string{"cleat.yaml:2: plugins.restart.base: is 0s, want more than 0"}},
		"none where needed": {"plugins: {deadlines: {stop: none}}\n", []string{`cleat.yaml:2: plugins.deadlines.stop: is "none", want a duration such as 30s, 10m or 4h`}},
		"no size":           {"plugins: {limits: {messageSize: big}}\n", []string{`cleat.yaml:2: plugins.limits.messageSize: is "big", want a number of bytes such as 1048576 or 256Mi`}},
		"a small size":      {"plugins: {limits: {messageSize: 4k}}\n", []string{"cleat.yaml:2: plugins.limits.messageSize: is 4k, want at least 4Mi"}},
		"a large size":      {"plugins: {limits: {messageSize: 2Gi}}\n", []string{"cleat.yaml:2: plugins.limits.messageSize: is 2Gi, want at most 2047Mi"}},
		"a huge size":       {"plugins: {limits: {messageSize: 999999999999999999Gi}}\n", []string{"more bytes than can be counted"}},
		"no number":         {"backups: {concurrent: many}\n", []string{`cleat.yaml:2: backups.concurrent: is "many", want a whole number below 2147483647`}},
		"a fraction":        {"backups: {concurrent: 1.5}\n", []string{`cleat.yaml:2: backups.concurrent: is "1.5", want a whole number`}},
		"too few":           {"backups: {concurrent: 0}\n", []string{"cleat.yaml:2: backups.concurrent: is 0, want at least 1"}},
		"no choice": {"backups: {admission: {plugin: a.io/b, failurePolicy: Warn}}\n", []string{
			`cleat.yaml:2: backups.admission.failurePolicy: is "Warn", want one of Hold, UseBuiltIn`,
		}},
		"no truth":         {"plugins: {isolateBuiltIns: yes}\n", []string{`cleat.yaml:2: plugins.isolateBuiltIns: is the text "yes", want true or false`}},
		"no text":          {"plugins: {environment: {PORT: 8080}}\n", []string{"cleat.yaml:2: plugins.environment.PORT: is the number 8080, want text; put it in quotes"}},
		"no variable":      {"plugins: {environment: {A-B: x}}\n", []string{"cleat.yaml:2: plugins.environment.A-B: is no name of an environment variable"}},
		"a zero byte":      {"plugins: {environment: {A: \"\\0\"}}\n", []string{"cleat.yaml:2: plugins.environment.A: has a zero byte"}},
		"a number for key": {"plugins: {environment: {1: x}}\n", []string{"cleat.yaml:2: plugins.environment: has a key that is the number 1, want text"}},
		"empty text":       {"plugins: {lock: \"\"}\n", []string{"cleat.yaml:2: plugins.lock: is empty; give it a value, or leave the key out"}},
		"no value":         {"plugins:\n  lock:\n", []string{"cleat.yaml:3: plugins.lock: is empty; or leave the key out"}},
		"no name":          {"plugins: {order: [pods]}\n", []string{`cleat.yaml:2: plugins.order[0]: plugin name "pods" must be "domain/name"`}},
		"a star no name":   {"backups: {admission: {plugin: \"*\"}}\n", []string{`cleat.yaml:2: backups.admission.plugin: plugin name "*" must be`}},
		"a name twice":     {"plugins:\n  order:\n  - a.io/b\n  - \"*\"\n  - a.io/b\n", []string{`cleat.yaml:6: plugins.order[2]: "a.io/b" is in the list already, in line 4`}},
		"a writer twice": {"backups:\n  manifestWriters:\n  - plugin: a.io/b\n  - plugin: a.io/b\n", []string{
			`cleat.yaml:5: backups.manifestWriters[1]: "a.io/b" is in the list already, in line 4`,
		}},
		"no list":          {"plugins: {order: a.io/b}\n", []string{`cleat.yaml:2: plugins.order: is the text "a.io/b", want a list`}},
		"no mapping":       {"plugins: []\n", []string{"cleat.yaml:2: plugins: is a list, want keys and values"}},
		"no scalar":        {"tracing: {endpoint: {}}\n", []string{"cleat.yaml:2: tracing.endpoint: is keys and values"}},
		"no URL":           {"tracing: {endpoint: collector}\n", []string{`cleat.yaml:2: tracing.endpoint: endpoint "collector": want the URL of an OTLP receiver`}},
		"no kind":          {"plugins: {deadlines: {kinds: {Backups: 1s}}}\n", []string{`cleat.yaml:2: plugins.deadlines.kinds.Backups: is no kind of plugin that has a deadline here; known are BackupItemAction, `}},
		"a policy's kind":  {"plugins: {deadlines: {kinds: {QueueAdmission: 1s}}}\n", []string{"cleat.yaml:2: plugins.deadlines.kinds.QueueAdmission: is no kind of plugin that has"}},
		"an anchor":        {"backups: &b {}\n", []string{"cleat.yaml:2: backups: has an anchor, alias or tag (&, *, !) of YAML, which are not supported"}},
		"an alias":         {"plugins: {environment: {A: &a x, B: *a}}\n", []string{"plugins.environment.A: has an anchor", "plugins.environment.B: has an anchor"}},
		"a tag":            {"tracing: {endpoint: !!binary aGk=}\n", []string{"cleat.yaml:2: tracing.endpoint: has an anchor, alias or tag"}},
		"a merge":          {"plugins:\n  <<: {lock: x}\n", []string{"cleat.yaml:3: plugins: has a key that is"}},
		"config no object": {"backups: {admission: {plugin: a.io/b, config: [1]}}\n", []string{"cleat.yaml:2: backups.admission.config: is a list, want keys and values"}},
		"config twice": {"backups:\n  admission:\n    plugin: a.io/b\n    config:\n      a: 1\n      a: 2\n", []string{
			"cleat.yaml:7: backups.admission.config.a: is set a second time, the first is in line 6",
		}},
		"config no number":  {"backups: {admission: {plugin: a.io/b, config: {a: [.inf]}}}\n", []string{"cleat.yaml:2: backups.admission.config.a[0]: is the number .inf, which JSON has no number for"}},
		"config an alias":   {"backups: {admission: {plugin: a.io/b, config: {a: [&x 1]}}}\n", []string{"cleat.yaml:2: backups.admission.config.a[0]: has an anchor"}},
		"no YAML":           {"backups: [\n", []string{"cleat.yaml:2: is no YAML: "}},
		"a second document": {"---\napiVersion: cleat.dev/v1\n", []string{"cleat.yaml:2: there is a second document; want one"}},
		"all at once": {"backups: {concurrent: 0}\nplugins: {lock: 5}\ntracing: 5\n", []string{
			"cleat.yaml:2: backups.concurrent: ", "\ncleat.yaml:3: plugins.lock: ", "\ncleat.yaml:4: tracing: is the number 5, want keys and values",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\n"+test.text))
			require.Nil(t, file)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestAFileSaysItsVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "cleat.yaml: is empty, want at least apiVersion: cleat.dev/v1",
		"# nothing\n":                "cleat.yaml: is empty, want at least apiVersion: cleat.dev/v1",
		"backups: {}\n":              "cleat.yaml:1: apiVersion: is missing, want cleat.dev/v1",
		"\napiVersion: v1\n":         `cleat.yaml:2: apiVersion: is "v1", want cleat.dev/v1`,
		"just a text\n":              `cleat.yaml:1: is the text "just a text", want keys and values`,
		strings.Repeat("# x\n", 3e5): "cleat.yaml: is larger than 1048576 bytes",
	} {
		_, err := Parse("cleat.yaml", []byte(text))
		require.ErrorContains(t, err, want)
	}
	_, err := ReadFile(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "--config")
}

func TestWhatIsLeftOutIsZero(t *testing.T) {
	t.Parallel()
	file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nbackups:\nplugins:\n  order:\n  deadlines: {idle: none}\n"))
	require.NoError(t, err)
	require.Empty(t, file.Named())
	require.Equal(t, Plugins{Deadlines: Deadlines{Idle: -1}}, file.Plugins)
	require.Zero(t, file.Backups)
}

func TestTheFileSetsFlags(t *testing.T) {
	t.Parallel()
	file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nbackups: {concurrent: 7}\nplugins:\n  directory: /x\n  isolateBuiltIns: true\n"))
	require.NoError(t, err)
	options := Defaults()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	options.AddFlags(flags)
	require.NoError(t, file.Apply(flags))
	require.Equal(t, 7, options.ConcurrentBackups)
	require.Equal(t, "/x", options.PluginDir)
	require.True(t, options.IsolateBuiltIns)
}

func TestASettingByFlagAndByFileIsAnErrorThatNamesBoth(t *testing.T) {
	t.Parallel()
	file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nbackups: {concurrent: 7}\nplugins:\n  directory: /x\n"))
	require.NoError(t, err)
	flags := flagSet()
	require.NoError(t, flags.Parse([]string{"--plugin-dir=/y", "--concurrent-backups=7"}))
	require.EqualError(t, file.Apply(flags), "cleat.yaml:2: backups.concurrent: is set by the flag --concurrent-backups as well; set it in one place\n"+
		"cleat.yaml:4: plugins.directory: is set by the flag --plugin-dir as well; set it in one place")
}

// FuzzParse proves that no file brings the reader down, that every mistake has its place, and that what gets through
// can be sent to a plugin.
func FuzzParse(f *testing.F) {
	whole, err := os.ReadFile(example)
	require.NoError(f, err)
	f.Add(whole)
	for _, text := range []string{
		"apiVersion: cleat.dev/v1\nbackups: {admission: {plugin: a.io/b, config: {a: [1, 2.5, ~, {b: 0x1F}], 2: x}}}\n",
		"a: &a [*a]\n", "? [x]\n: y\n", "--- \n...\n---\n", "{", "\xff", "- - - -\n", "plugins: {environment: {A: !!str 1}}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("cleat.yaml", data)
		if err != nil {
			require.Nil(t, file)
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if strings.HasPrefix(line, "cleat.yaml") {
					return
				}
			}
			require.Fail(t, "no place", "%v", err)
		}
		require.Equal(t, APIVersion, file.APIVersion)
		for _, named := range file.Named() {
			require.NoError(t, named.Policy.Config.Check([]byte(`{"type":"object"}`)))
		}
	})
}
