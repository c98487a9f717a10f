package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/hostenv"
)

const example = "../../../../examples/config/cleat.yaml"

func TestExampleHasEveryKey(t *testing.T) {
	t.Parallel()
	file, err := ReadFile(example)
	require.NoError(t, err)
	requireFilled(t, "", reflect.ValueOf(*file))
	require.Equal(t, 10*time.Second, file.Backups.Admission.Deadline.Std())
	require.Equal(t, UseBuiltIn, file.NodeAgent.Soothing.FailurePolicy)
	require.JSONEq(t, `{"loads":10}`, string(file.NodeAgent.Soothing.Config.JSON))
	require.JSONEq(t, `{"zone":"UTC"}`, string(file.Plugins.Config["example.io/stamp"].JSON))
	require.Equal(t, Size(256<<20), file.Plugins.Limits.MessageSize)
	require.Equal(t, time.Hour, file.Plugins.Deadlines.Kinds["BackupItemAction"].Std())
}

// requireFilled requires that every key below path has a value that is not zero in one of the structs, except for
// booleans.
func requireFilled(t *testing.T, path string, structs ...reflect.Value) {
	t.Helper()
	require.NotEmpty(t, structs, path)
	for i, key := range keys(structs[0].Type()) {
		at := path + "." + key
		var set, elements []reflect.Value
		for _, value := range structs {
			field := value.Field(i)
			if object, isObject := field.Interface().(Object); isObject && object.JSON == nil || field.IsZero() {
				continue
			}
			set = append(set, field)
			for n := 0; field.Kind() == reflect.Slice && n < field.Len(); n++ {
				elements = append(elements, field.Index(n))
			}
		}
		of := structs[0].Field(i).Type()
		if of.Kind() != reflect.Bool {
			require.NotEmpty(t, set, "%s is not in %s", at, example)
		}
		switch {
		case of == reflect.TypeFor[Object](), of == reflect.TypeFor[KeySource](): // of whose keys one can be set
		case of.Kind() == reflect.Struct:
			requireFilled(t, at, set...)
		case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
			requireFilled(t, at+"[]", elements...)
		}
	}
}

// keys returns the keys of a struct of the file by the index of their fields.
func keys(of reflect.Type) map[int]string {
	found := map[int]string{}
	for i := range of.NumField() {
		switch field := of.Field(i); {
		case (field.Type == reflect.TypeFor[Object]() || field.Type == reflect.TypeFor[map[string]Object]()) &&
			field.IsExported():
			found[i] = strings.ToLower(field.Name)
		case field.IsExported():
			found[i] = field.Tag.Get("yaml")
		}
	}
	return found
}

func TestEnvironmentOfPlugins(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		rule      hostenv.Rule
		variables map[string]string
	}{
		"{}":                      {},
		"{environment: }":         {},
		"{environment: Complete}": {rule: hostenv.Complete},
		"{environment: Strict}":   {rule: hostenv.Strict},
		"{environment: Strict, variables: {A: b}}": {hostenv.Strict, map[string]string{"A": "b"}},
		"{variables: {A: b}}":                      {variables: map[string]string{"A": "b"}},
		"{environment: {A: b}}":                    {variables: map[string]string{"A": "b"}}, // as in earlier files
	} {
		file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nplugins: "+text+"\n"))
		require.NoError(t, err, text)
		require.Equal(t, want.rule, file.Plugins.Environment.Rule(), text)
		require.Equal(t, want.variables, file.Plugins.Variables, text)
	}
}

func TestSchemaAndFileHaveTheSameKeys(t *testing.T) {
	t.Parallel()
	rules, _, err := compile(fileSchema, formats())
	require.NoError(t, err)
	var walk func(string, reflect.Type, *jsonschema.Schema)
	walk = func(path string, of reflect.Type, rules *jsonschema.Schema) {
		for rules.Ref != nil {
			rules = rules.Ref
		}
		if of.Kind() == reflect.Slice {
			of, rules = of.Elem(), rules.Items2020
			for rules.Ref != nil {
				rules = rules.Ref
			}
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[Object]() {
			return
		}
		require.ElementsMatch(t, slices.Collect(maps.Values(keys(of))), slices.Collect(maps.Keys(rules.Properties)), path)
		for i, key := range keys(of) {
			walk(path+"."+key, of.Field(i).Type, rules.Properties[key])
		}
	}
	walk("", reflect.TypeFor[File](), rules)
}

func flagSet() *pflag.FlagSet {
	options := Defaults()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	options.AddFlags(flags)
	return flags
}

func TestParseReportsMistakesWithFileLineAndKey(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string // after apiVersion, from line 2 on
		want []string
	}{
		"a typing error": {"backups:\n  admission:\n    plugn: a.io/b\n", []string{
			"cleat.yaml:3: backups.admission.plugin: is missing",
			"cleat.yaml:4: backups.admission.plugn: unknown key; known are config, deadline, failurePolicy, plugin",
		}},
		"at the root": {"backup: {}\n", []string{"cleat.yaml:2: backup: unknown key; known are apiVersion, backups, " +
			"maintenance, nodeAgent, operations, plugins, restores, tracing"}},
		"a key twice": {"tracing: {}\nbackups: {}\ntracing: {}\n",
			[]string{"cleat.yaml:4: tracing: is set a second time, the first is in line 2"}},
		"no duration": {"plugins: {deadlines: {query: 30}}\n",
			[]string{`cleat.yaml:2: plugins.deadlines.query: is the number 30, want a duration of at least 1ms such as 30s, 10m or 4h, or none`}},
		"a negative one": {"plugins: {deadlines: {query: -1s}}\n",
			[]string{`cleat.yaml:2: plugins.deadlines.query: is the text "-1s", want a duration of at least 1ms`}},
		"no time at all": {"plugins: {restart: {backoff: 0s}}\n",
			[]string{`cleat.yaml:2: plugins.restart.backoff: is the text "0s", want a duration of at least 1ms`}},
		"none where needed": {"plugins: {restart: {coolDown: none}}\n",
			[]string{`cleat.yaml:2: plugins.restart.coolDown: is the text "none", want a duration of at least 1ms such as 30s, 10m or 4h`}},
		"no size": {"plugins: {limits: {messageSize: big}}\n",
			[]string{`cleat.yaml:2: plugins.limits.messageSize: is the text "big", want a number of bytes from 4Mi to 2047Mi such as 16777216 or 256Mi`}},
		"a small size": {"plugins: {limits: {messageSize: 4k}}\n",
			[]string{`cleat.yaml:2: plugins.limits.messageSize: is the text "4k", want a number of bytes from 4Mi to 2047Mi`}},
		"a large size": {"plugins: {limits: {messageSize: 2Gi}}\n",
			[]string{`cleat.yaml:2: plugins.limits.messageSize: is the text "2Gi", want a number of bytes from 4Mi to 2047Mi`}},
		"a huge size": {"plugins: {limits: {messageSize: 999999999999999999Gi}}\n",
			[]string{`messageSize: is the text "999999999999999999Gi", want a number of bytes from 4Mi to 2047Mi`}},
		"a small memory": {"plugins: {limits: {memory: -1}}\n",
			[]string{"cleat.yaml:2: plugins.limits.memory: is the number -1, want a number of bytes of at least 256Mi"}},
		"a short rescan": {"plugins: {rescan: 10ms}\n",
			[]string{`cleat.yaml:2: plugins.rescan: is the text "10ms", want a duration of at least 1s`}},
		"a short start": {"plugins: {deadlines: {start: 10ms}}\n",
			[]string{`cleat.yaml:2: plugins.deadlines.start: is the text "10ms", want a duration of at least 100ms`}},
		"no number": {"backups: {concurrent: many}\n",
			[]string{`cleat.yaml:2: backups.concurrent: is the text "many", want a whole number from 1 to 2147483647`}},
		"a fraction": {"backups: {concurrent: 1.5}\n",
			[]string{`cleat.yaml:2: backups.concurrent: is the number 1.5, want a whole number`}},
		"too few": {"backups: {concurrent: 0}\n",
			[]string{"cleat.yaml:2: backups.concurrent: is the number 0, want a whole number from 1"}},
		"no choice": {"backups: {admission: {plugin: a.io/b, failurePolicy: Warn}}\n", []string{
			`cleat.yaml:2: backups.admission.failurePolicy: is the text "Warn", want one of Hold, UseBuiltIn`,
		}},
		"no truth": {"plugins: {isolateBuiltIns: yes}\n",
			[]string{`cleat.yaml:2: plugins.isolateBuiltIns: is the text "yes", want true or false`}},
		"no text": {"plugins: {environment: {PORT: 8080}}\n",
			[]string{"cleat.yaml:2: plugins.environment.PORT: is the number 8080, want text; put it in quotes"}},
		"no rule": {"plugins: {environment: strict}\n",
			[]string{`cleat.yaml:2: plugins.environment: is the text "strict", want Complete or Strict`}},
		"a list of rules": {"plugins: {environment: [Strict]}\n",
			[]string{"cleat.yaml:2: plugins.environment: is a list, want Complete or Strict"}},
		"a reserved name": {"plugins: {variables: {PLUGIN_CLIENT_CERT: x}}\n",
			[]string{"cleat.yaml:2: plugins.variables.PLUGIN_CLIENT_CERT: is set by the server for each process of a plugin"}},
		"variables twice": {"plugins: {environment: {A: x}, variables: {B: y}}\n",
			[]string{"cleat.yaml:2: plugins.environment: has variables, and so has plugins.variables"}},
		"no variable": {"plugins: {environment: {A-B: x}}\n",
			[]string{"cleat.yaml:2: plugins.environment.A-B: is not a name of an environment variable"}},
		"a zero byte": {"plugins: {environment: {A: \"\\0\"}}\n",
			[]string{"cleat.yaml:2: plugins.environment.A: has a zero byte"}},
		"a number for key": {"plugins: {environment: {1: x}}\n",
			[]string{"cleat.yaml:2: plugins.environment: has a key that is the number 1, want text"}},
		"no plugin name": {"plugins:\n  config:\n    stamp: {}\n",
			[]string{`cleat.yaml:4: plugins.config.stamp: plugin name "stamp" must be "domain/name"`}},
		"no config": {"plugins: {config: {a.io/b: }}\n",
			[]string{"cleat.yaml:2: plugins.config.a.io/b: is empty, want a mapping"}},
		"empty text": {"plugins: {lock: \"\"}\n",
			[]string{"cleat.yaml:2: plugins.lock: is empty; give it a value, or leave the key out"}},
		"no value": {"plugins:\n  lock:\n", []string{"cleat.yaml:3: plugins.lock: is empty, want text"}},
		"no concurrency": {"plugins: {concurrency: {a.io/b: 0}}\n",
			[]string{`cleat.yaml:2: plugins.concurrency.a.io/b: is the number 0, want a whole number from 1 to 2147483647`}},
		"concurrency of what": {"plugins: {concurrency: {pods: 2}}\n",
			[]string{`cleat.yaml:2: plugins.concurrency.pods: plugin name "pods" must be "domain/name"`}},
		"no name": {"plugins: {order: [pods]}\n",
			[]string{`cleat.yaml:2: plugins.order[0]: plugin name "pods" must be "domain/name"`}},
		"a star no name": {"backups: {admission: {plugin: \"*\"}}\n",
			[]string{`cleat.yaml:2: backups.admission.plugin: plugin name "*" must be`}},
		"a name twice": {"plugins:\n  order:\n  - a.io/b\n  - \"*\"\n  - a.io/b\n",
			[]string{`cleat.yaml:6: plugins.order[2]: "a.io/b" is in the list already, in line 4`}},
		"a writer twice": {"backups:\n  manifestWriters:\n  - plugin: a.io/b\n  - plugin: a.io/b\n", []string{
			`cleat.yaml:5: backups.manifestWriters[1]: "a.io/b" is in the list already, in line 4`,
		}},
		"a row of what?": {"backups:\n  references:\n  - resources: [a.example.io]\n    path: spec.name\n", []string{
			"cleat.yaml:5: backups.references[0].path: unknown key; known are as, paths, resources, softIf, strict, to, when",
		}},
		"a path to nowhere": {"backups:\n  references:\n  - resources: [a.example.io]\n    paths:\n    - spec.name\n    - " +
			"spec..name\n    to: {resource: services}\n", []string{
			`cleat.yaml:7: backups.references[0].paths[1]: is not a path: "" is not a key`,
			"cleat.yaml:8: backups.references[0].to.kind: is missing",
		}},
		"parts of parts": {"backups:\n  references:\n  - {resources: [pods], paths: [spec.x], as: {resource: pods, path: " +
			"spec}}\n", []string{
			"cleat.yaml:4: backups.references[0].as: leads in a circle: ",
		}},
		"no list": {"plugins: {order: a.io/b}\n",
			[]string{`cleat.yaml:2: plugins.order: is the text "a.io/b", want a list`}},
		"no mapping": {"plugins: []\n", []string{"cleat.yaml:2: plugins: is a list, want a mapping"}},
		"no scalar":  {"tracing: {endpoint: {}}\n", []string{"cleat.yaml:2: tracing.endpoint: is a mapping"}},
		"no URL": {"tracing: {endpoint: collector}\n",
			[]string{`cleat.yaml:2: tracing.endpoint: endpoint "collector": want the URL of an OTLP receiver`}},
		"no kind": {"plugins: {deadlines: {kinds: {Backups: 1s}}}\n",
			[]string{`cleat.yaml:2: plugins.deadlines.kinds.Backups: is not a kind of plugin that has a deadline here; known are BackupItemAction, `}},
		"a policy's kind": {"plugins: {deadlines: {kinds: {QueueAdmission: 1s}}}\n",
			[]string{"cleat.yaml:2: plugins.deadlines.kinds.QueueAdmission: is not a kind of plugin that has"}},
		"an anchor": {"backups: &b {}\n", []string{"cleat.yaml:2: backups: has an anchor, alias or tag (&, *, !) of " +
			"YAML, which are not supported"}},
		"an alias": {"plugins: {environment: {A: &a x, B: *a}}\n", []string{"plugins.environment.A: has an anchor",
			"plugins.environment.B: has an anchor"}},
		"a tag": {"tracing: {endpoint: !!binary aGk=}\n",
			[]string{"cleat.yaml:2: tracing.endpoint: has an anchor, alias or tag"}},
		"a merge": {"plugins:\n  <<: {lock: x}\n", []string{"cleat.yaml:3: plugins: has a key that is"}},
		"config no object": {"backups: {admission: {plugin: a.io/b, config: [1]}}\n",
			[]string{"cleat.yaml:2: backups.admission.config: is a list, want a mapping"}},
		"config twice": {"backups:\n  admission:\n    plugin: a.io/b\n    config:\n      a: 1\n      a: 2\n", []string{
			"cleat.yaml:7: backups.admission.config.a: is set a second time, the first is in line 6",
		}},
		"config no number": {"backups: {admission: {plugin: a.io/b, config: {a: [.inf]}}}\n",
			[]string{"cleat.yaml:2: backups.admission.config.a[0]: is the number .inf, which JSON has no number for"}},
		"config an alias": {"backups: {admission: {plugin: a.io/b, config: {a: [&x 1]}}}\n",
			[]string{"cleat.yaml:2: backups.admission.config.a[0]: has an anchor"}},
		"no YAML": {"backups: [\n", []string{"cleat.yaml:2: is not YAML: "}},
		"a second document": {"---\napiVersion: cleat.dev/v1\n",
			[]string{"cleat.yaml:2: there is a second document; want one"}},
		"all at once": {"backups: {concurrent: 0}\nplugins: {lock: 5}\ntracing: 5\n", []string{
			"cleat.yaml:2: backups.concurrent: ", "\ncleat.yaml:3: plugins.lock: ",
			"\ncleat.yaml:4: tracing: is the number 5, want a mapping",
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

func TestParseRequiresTheVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "cleat.yaml: is empty, want at least apiVersion: cleat.dev/v1",
		"# nothing\n":                "cleat.yaml: is empty, want at least apiVersion: cleat.dev/v1",
		"backups: {}\n":              "cleat.yaml:1: apiVersion: is missing, want cleat.dev/v1",
		"\napiVersion: v1\n":         `cleat.yaml:2: apiVersion: is the text "v1", want cleat.dev/v1`,
		"just a text\n":              `cleat.yaml:1: is the text "just a text", want a mapping`,
		strings.Repeat("# x\n", 3e5): "cleat.yaml: is larger than 1048576 bytes",
	} {
		_, err := Parse("cleat.yaml", []byte(text))
		require.ErrorContains(t, err, want)
	}
	_, err := ReadFile(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "--config")
}

func TestKeysThatAreNotSetAreZero(t *testing.T) {
	t.Parallel()
	file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nbackups:\nplugins:\n  order:\n  deadlines: "+
		"{query: none}\n"))
	require.NoError(t, err)
	require.Empty(t, file.Named())
	require.Equal(t, Plugins{Deadlines: Deadlines{Query: -1}}, file.Plugins)
	require.Zero(t, file.Backups)
}

func TestApplySetsFlags(t *testing.T) {
	t.Parallel()
	file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nbackups: {concurrent: 7}\nplugins:\n  directory: "+
		"/x\n  isolateBuiltIns: true\n"))
	require.NoError(t, err)
	options := Defaults()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	options.AddFlags(flags)
	require.NoError(t, file.Apply(flags))
	require.Equal(t, 7, options.ConcurrentBackups)
	require.Equal(t, "/x", options.PluginDir)
	require.True(t, options.IsolateBuiltIns)
}

func TestApplyRejectsASettingByFlagAndFile(t *testing.T) {
	t.Parallel()
	file, err := Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nbackups: {concurrent: 7}\nplugins:\n  directory: "+
		"/x\n"))
	require.NoError(t, err)
	flags := flagSet()
	require.NoError(t, flags.Parse([]string{"--plugin-dir=/y", "--concurrent-backups=7"}))
	require.EqualError(t, file.Apply(flags), "cleat.yaml:2: backups.concurrent: is set by the flag --concurrent-backups "+
		"as well; set it in one place\n"+
		"cleat.yaml:4: plugins.directory: is set by the flag --plugin-dir as well; set it in one place")
}

// FuzzParse verifies that no file makes Parse panic, that every mistake has a position, and that what Parse accepts can
// be sent to a plugin.
func FuzzParse(f *testing.F) {
	whole, err := os.ReadFile(example)
	require.NoError(f, err)
	f.Add(whole)
	for _, text := range []string{
		"apiVersion: cleat.dev/v1\nbackups: {admission: {plugin: a.io/b, config: {a: [1, 2.5, ~, {b: 0x1F}], 2: x}}}\n",
		"a: &a [*a]\n", "? [x]\n: y\n", "--- \n...\n---\n", "{", "\xff", "- - - -\n",
		"plugins: {environment: {A: !!str 1}}\n",
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
			require.Fail(t, "no position", "%v", err)
		}
		require.Equal(t, APIVersion, file.APIVersion)
		for _, named := range file.Named() {
			require.NoError(t, named.Policy.Config.Check([]byte(`{"type":"object"}`)))
		}
	})
}
