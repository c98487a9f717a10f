package modifiers

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

func configMap(document string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "mods"},
		Data: map[string]string{"rules.yaml": document}}
}

// rules parses a YAML list of rules.
func rules(t testing.TB, list string) *Rules {
	t.Helper()
	parsed, err := Parse(configMap("version: v1\nresourceModifierRules:\n" + list))
	require.NoError(t, err)
	return parsed
}

const claim = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"mysql-data","namespace":"foo","labels":{"app":"db","test":"x"}},` +
	`"spec":{"storageClassName":"standard","accessModes":["ReadWriteOnce","ReadOnlyMany"],"size":9007199254740993,"ratio":1.50}}`

var claimItem = Item{
	GroupResource: schema.GroupResource{Resource: "persistentvolumeclaims"}, Namespace: "foo", Name: "mysql-data",
	Labels: map[string]string{"app": "db", "test": "x"},
}

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"foo"},` +
	`"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"nginx","image":"repo1/nginx"},{"name":"side","image":"s"}]}}}}`

var deploymentItem = Item{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: "foo",
	Name: "web"}

func as(text string) func() []byte { return func() []byte { return []byte(text) } }

func TestConditionsSelectObjects(t *testing.T) {
	t.Parallel()
	const rule = "- mergePatches: [{patchData: '{metadata: {annotations: {changed: \"yes\"}}}'}]\n  conditions: "
	node := Item{GroupResource: schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}, Name: "fast"}
	for name, tt := range map[string]struct {
		conditions string
		item       Item
		want       bool
	}{
		"resource":                    {"{groupResource: persistentvolumeclaims}", claimItem, true},
		"other resource":              {"{groupResource: pods}", claimItem, false},
		"resource without its group":  {"{groupResource: deployments}", deploymentItem, false},
		"resource with its group":     {"{groupResource: deployments.apps}", deploymentItem, true},
		"star matches the core group": {"{groupResource: '*'}", claimItem, true},
		"star matches no other group": {"{groupResource: '*'}", deploymentItem, false},
		"all of a group":              {"{groupResource: '*.apps'}", deploymentItem, true},
		"star dot star":               {"{groupResource: '*.*'}", deploymentItem, true},
		"star does not match dots":    {"{groupResource: '*.*'}", node, false},
		"two stars match dots":        {"{groupResource: '**'}", node, true},
		"question mark":               {"{groupResource: 'deployment?.apps'}", deploymentItem, true},
		"alternatives":                {"{groupResource: '{deployments,daemonsets}.apps'}", deploymentItem, true},
		"namespace":                   {"{groupResource: '**', namespaces: [bar, foo]}", claimItem, true},
		"other namespace":             {"{groupResource: '**', namespaces: [bar]}", claimItem, false},
		"namespace glob":              {"{groupResource: '**', namespaces: ['f*']}", claimItem, true},
		"namespace star":              {"{groupResource: '**', namespaces: ['*']}", claimItem, true},
		"no namespaces":               {"{groupResource: '**', namespaces: []}", claimItem, true},
		"cluster-scoped passes":       {"{groupResource: '**', namespaces: [bar]}", node, true},
		"name":                        {"{groupResource: '**', resourceNameRegex: '^mysql.*$'}", claimItem, true},
		"part of the name":            {"{groupResource: '**', resourceNameRegex: sql}", claimItem, true},
		"other name":                  {"{groupResource: '**', resourceNameRegex: '^sql'}", claimItem, false},
		"labels":                      {"{groupResource: '**', labelSelector: {matchLabels: {app: db}}}", claimItem, true},
		"other labels":                {"{groupResource: '**', labelSelector: {matchLabels: {app: web}}}", claimItem, false},
		"label expression": {"{groupResource: '**', labelSelector: {matchExpressions: [{key: app, operator: " +
			"Exists}]}}", claimItem, true},
		"match": {"{groupResource: '**', matches: [{path: /spec/storageClassName, value: " + "standard}]}", claimItem, true},
		"other value": {"{groupResource: '**', matches: [{path: /spec/storageClassName, value: " +
			"premium}]}", claimItem, false},
		"all must match": {"{groupResource: '**', matches: [{path: /spec/storageClassName, value: " +
			"standard}, {path: /metadata/name, value: x}]}", claimItem, false},
		"match of a number": {"{groupResource: '**', matches: [{path: /spec/size, value: 9007199254740993}]}",
			claimItem, true},
		"number is not a string": {`{groupResource: '**', matches: [{path: /spec/size, value: '"9007199254740993"'}]}`,
			claimItem, false},
		"match of a list": {`{groupResource: '**', matches: [{path: /spec/accessModes, value: '["ReadWriteOnce", "ReadOnlyMany"]'}]}`, claimItem, true},
		"match inside a list": {"{groupResource: '**', matches: [{path: /spec/accessModes/1, value: " +
			"ReadOnlyMany}]}", claimItem, true},
		"missing field":   {"{groupResource: '**', matches: [{path: /spec/volumeName, value: x}]}", claimItem, false},
		"missing path":    {"{groupResource: '**', matches: [{path: /status/phase/deep, value: x}]}", claimItem, false},
		"missing element": {"{groupResource: '**', matches: [{path: /spec/accessModes/7, value: x}]}", claimItem, false},
		"null matches missing field": {"{groupResource: '**', matches: [{path: /spec/volumeName, value: 'null'}]}",
			claimItem, true},
		"null matches no value": {"{groupResource: '**', matches: [{path: /spec/storageClassName, value: 'null'}]}",
			claimItem, false},
		"match of an empty string": {"{groupResource: '**', matches: [{path: /spec/storageClassName}]}", claimItem, false},
		"slash in a key is written as ~1": {"{groupResource: '**', matches: [{path: /metadata/labels/a~1b, value: c}]}",
			claimItem, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed, errs := rules(t, rule+tt.conditions).Apply(tt.item, as(claim))
			require.Empty(t, errs)
			require.Equal(t, tt.want, changed != nil, "%s", changed)
		})
	}
}

func TestConditionThatCannotBeEvaluatedIsError(t *testing.T) {
	t.Parallel()
	changed, errs := rules(t, "- conditions: {groupResource: '**', matches: [{path: /spec/accessModes/first, value: "+
		"x}]}\n  mergePatches: [{patchData: '{a: b}'}]").Apply(claimItem, as(claim))
	require.Nil(t, changed)
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "resourceModifierRules[0]: conditions.matches: ")
}

func TestRulesChangeObjects(t *testing.T) {
	t.Parallel()
	// Each case has the rest of a rule after its conditions, and JSON that the result must and must not contain.
	for name, tt := range map[string]struct {
		rule string
		want []string
		not  []string
	}{
		"add": {"patches: [{operation: add, path: /spec/x, value: z}]", []string{`"x":"z"`}, nil},
		"add to a list": {"patches: [{operation: add, path: /spec/template/spec/containers/-, value: '{\"name\": " +
			"\"c\"}'}]", []string{`,{"name":"c"}]`}, nil},
		"insert into a list": {"patches: [{operation: add, path: /spec/template/spec/containers/0, value: '{\"name\": " +
			"\"c\"}'}]", []string{`[{"name":"c"},`}, nil},
		"remove": {"patches: [{operation: remove, path: /spec/replicas}]", nil, []string{"replicas"}},
		"replace": {"patches: [{operation: replace, path: /spec/replicas, value: 1}]",
			[]string{`"replicas":1`}, nil},
		"capital letters": {"patches: [{operation: Replace, path: /spec/replicas, value: 1}]",
			[]string{`"replicas":1`}, nil},
		"move": {"patches: [{operation: move, from: /spec/replicas, path: /spec/old}]",
			[]string{`"old":3`}, []string{"replicas"}},
		"copy": {"patches: [{operation: copy, from: /spec/replicas, path: /spec/old}]",
			[]string{`"old":3`, `"replicas":3`}, nil},
		"test that holds": {"patches: [{operation: test, path: /spec/replicas, value: 3}, {operation: replace, " +
			"path: /spec/replicas, value: 4}]", []string{`"replicas":4`}, nil},
		"test that fails": {"patches: [{operation: replace, path: /spec/replicas, value: 4}, {operation: test, " +
			"path: /metadata/name, value: x}]", nil, nil},
		"in order": {"patches: [{operation: replace, path: /spec/replicas, value: 4}, {operation: replace, " +
			"path: /spec/replicas, value: 5}]", []string{`"replicas":5`}, nil},
		"number": {"patches: [{operation: add, path: /spec/x, value: '-1.5e3'}]", []string{`"x":-1.5e3`},
			nil},
		"boolean": {"patches: [{operation: add, path: /spec/x, value: true}]", []string{`"x":true`}, nil},
		"null":    {"patches: [{operation: add, path: /spec/x, value: 'null'}]", []string{`"x":null`}, nil},
		"object": {"patches: [{operation: add, path: /spec/x, value: '{\"a\": [1, null]}'}]",
			[]string{`"x":{"a":[1,null]}`}, nil},
		"text like a number": {`patches: [{operation: add, path: /spec/x, value: "\"1\""}]`, []string{`"x":"1"`}, nil},
		"no value is empty":  {"patches: [{operation: add, path: /spec/x}]", []string{`"x":""`}, nil},
		"one quote is empty": {`patches: [{operation: add, path: /spec/x, value: '"'}]`, []string{`"x":""`}, nil},
		"escapes are JSON's": {`patches: [{operation: add, path: /spec/x, value: 'a\nb'}]`, []string{`"x":"a\nb"`}, nil},
		"signs stay": {`patches: [{operation: add, path: /spec/x, value: 'a<b&c'}]`, []string{`"replicas":3`},
			nil},
		"merge": {"mergePatches: [{patchData: '{\"spec\": {\"replicas\": 1, \"y\": {\"z\": " +
			"9007199254740993}}}'}]", []string{`"replicas":1`, `9007199254740993`, "repo1/nginx"}, nil},
		"merge YAML": {"mergePatches: [{patchData: \"spec:\\n  replicas: 1\\n\"}]", []string{`"replicas":1`},
			nil},
		"merge null removes": {"mergePatches: [{patchData: '{\"spec\": {\"replicas\": null}}'}]", nil, []string{"replicas"}},
		"merge twice": {"mergePatches: [{patchData: '{spec: {replicas: 1}}'}, {patchData: '{spec: {other: 2}}'}]",
			[]string{`"replicas":1`, `"other":2`}, nil},
		"merge takes lists whole": {"mergePatches: [{patchData: '{spec: {template: {spec: {containers: []}}}}'}]",
			[]string{`"containers":[]`}, []string{"nginx"}},
		"strategic": {"strategicPatches: [{patchData: '{spec: {template: {spec: {containers: [{name: nginx, image: " +
			"repo2/nginx}]}}}}'}]",
			[]string{"repo2/nginx", `"name":"side"`}, []string{"repo1/nginx"}},
		"strategic twice": {"strategicPatches: [{patchData: '{spec: {replicas: 1}}'}, {patchData: '{spec: {paused: true}}'}]",
			[]string{`"replicas":1`, `"paused":true`}, nil},
		"strategic delete": {"strategicPatches: [{patchData: '{spec: {template: {spec: {containers: [{name: side, $patch: " +
			"delete}]}}}}'}]",
			[]string{"repo1/nginx"}, []string{"side"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed, errs := rules(t, "- conditions: {groupResource: deployments.apps}\n  "+tt.rule).Apply(deploymentItem,
				as(deployment))
			require.Empty(t, errs)
			if tt.want == nil && tt.not == nil {
				require.Nil(t, changed, "%s", changed)
				return
			}
			require.True(t, json.Valid(changed))
			for _, want := range tt.want {
				require.Contains(t, string(changed), want)
			}
			for _, not := range tt.not {
				require.NotContains(t, string(changed), not)
			}
		})
	}
}

func TestPatchesKeepLargeNumbers(t *testing.T) {
	t.Parallel()
	for _, patch := range []string{
		"patches: [{operation: add, path: /spec/a, value: b}]", "mergePatches: [{patchData: '{spec: {a: b}}'}]",
		"strategicPatches: [{patchData: '{spec: {a: b}}'}]",
	} {
		changed, errs := rules(t, "- conditions: {groupResource: '*'}\n  "+patch).Apply(claimItem, as(claim))
		require.Empty(t, errs)
		require.Contains(t, string(changed), `"size":9007199254740993`, patch)
	}
}

func TestConditionsUseOriginalObjectAndChangesAccumulate(t *testing.T) {
	t.Parallel()
	set := func(from, to string) string {
		return fmt.Sprintf("- conditions: {groupResource: '*', matches: [{path: /spec/storageClassName, value: %s}]}\n"+
			"  patches: [{operation: replace, path: /spec/storageClassName, value: %s}, {operation: add, path: "+
			"/metadata/labels/%s, value: was}]\n", from, to, to)
	}
	changed, errs := rules(t, set("standard", "premium")+set("premium", "wrong")+set("standard", "last")).Apply(claimItem,
		as(claim))
	require.Empty(t, errs)
	require.Contains(t, string(changed), `"storageClassName":"last"`)
	require.Contains(t, string(changed), `"premium":"was"`)
	require.NotContains(t, string(changed), "wrong")
}

// TestNamespaceIsNotChanged has each kind of patch that changes the namespace of an object, and one that does not.
func TestNamespaceIsNotChanged(t *testing.T) {
	t.Parallel()
	const refused = `resourceModifierRules[0]: it changes metadata.namespace from "foo" to %q, and a modifier cannot move ` +
		"an object; use spec.namespaceMapping of the restore (--namespace-mappings)"
	for name, tt := range map[string]struct {
		rule string
		to   string
		ok   bool
	}{
		"JSON patch":      {rule: "patches: [{operation: replace, path: /metadata/namespace, value: bar}]", to: "bar"},
		"JSON removal":    {rule: "patches: [{operation: remove, path: /metadata/namespace}]"},
		"JSON copy":       {rule: "patches: [{operation: copy, from: /metadata/name, path: /metadata/namespace}]", to: "web"},
		"merge patch":     {rule: "mergePatches: [{patchData: '{metadata: {namespace: bar}}'}]", to: "bar"},
		"strategic patch": {rule: "strategicPatches: [{patchData: '{metadata: {namespace: bar}}'}]", to: "bar"},
		"the same":        {rule: "mergePatches: [{patchData: '{metadata: {namespace: foo, labels: {a: b}}}'}]", ok: true},
		"another name":    {rule: "mergePatches: [{patchData: '{metadata: {name: other}}'}]", ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed, errs := rules(t, "- conditions: {groupResource: '**'}\n  "+tt.rule).Apply(deploymentItem, as(deployment))
			if tt.ok {
				require.Empty(t, errs)
				require.NotNil(t, changed)
				return
			}
			require.Nil(t, changed)
			require.Len(t, errs, 1)
			require.EqualError(t, errs[0], fmt.Sprintf(refused, tt.to))
		})
	}
}

func TestFailingRuleChangesNothing(t *testing.T) {
	t.Parallel()
	const good = "\n- conditions: {groupResource: '**'}\n  patches: [{operation: add, path: /metadata/labels, value: " +
		"'{\"good\": \"yes\"}'}]"
	widget := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"list":[1]}}`
	for want, rule := range map[string]string{
		"remove operation": "patches: [{operation: add, path: /spec/half, value: done}, {operation: remove, path: " +
			"/metadata/labels/test}]",
		"replace operation":   "patches: [{operation: replace, path: /spec/none, value: x}]",
		"does not apply":      "patches: [{operation: add, path: /spec/none/deep, value: x}]",
		"is missing path":     "patches: [{operation: test, path: /spec/none/deep, value: x}]",
		"copy operation":      "patches: [{operation: copy, from: /spec/none, path: /spec/x}]",
		"has no apiVersion":   "patches: [{operation: remove, path: /kind}]",
		"or metadata.name":    "mergePatches: [{patchData: '{metadata: null}'}]",
		"the result is not a": "patches: [{operation: replace, path: /metadata, value: text}]",
		`from "" to "other", and a modifier cannot move an object; use spec.namespaceMapping`: "mergePatches: [{patchData: " +
			"'{metadata: {namespace: other}}'}]",
		"example.com/v1 Widget is not a built-in type": "strategicPatches: [{patchData: '{spec: {a: b}}'}]",
		"accumulated size": "patches: [" + strings.Repeat("{operation: copy, from: /spec, path: /spec/list/-},", 40) + "]",
		"cannot be applied": "patches: [{operation: add, path: /spec/x, value: 'null'}, {operation: add, path: /spec/x/y, " +
			"value: z}]",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			changed, errs := rules(t, "- conditions: {groupResource: '**'}\n  "+rule+
				good).Apply(Item{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, Name: "w"},
				as(widget))
			require.Len(t, errs, 1, "%s", changed)
			require.ErrorContains(t, errs[0], "resourceModifierRules[0]: ")
			require.JSONEq(t, strings.Replace(widget, `"name":"w"`, `"name":"w","labels":{"good":"yes"}`, 1), string(changed))
		})
	}
}

func TestErrorOfMissingFieldHasMergePatchThatWorks(t *testing.T) {
	t.Parallel()
	of := Item{GroupResource: schema.GroupResource{Resource: "configmaps"}, Namespace: "n", Name: "c"}
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"list":[]}`
	for name, tt := range map[string]struct{ patches, instead string }{
		"the first label": {"{operation: add, path: /metadata/labels/three, value: '3'}",
			`{"metadata":{"labels":{"three":"3"}}}`},
		"a quoted value": {`{operation: add, path: /metadata/labels/three, value: '"3"'}`,
			`{"metadata":{"labels":{"three":"3"}}}`},
		"an escaped key": {"{operation: add, path: /metadata/annotations/example.io~1a~0b, value: x}",
			`{"metadata":{"annotations":{"example.io/a~b":"x"}}}`},
		"after one that applies": {"{operation: add, path: /data, value: '{}'}, {operation: replace, path: /data/a, " +
			"value: b}", `{"data":{"a":"b"}}`},
		"what is not there to go":   {"{operation: remove, path: /data/none}", `{"data":{"none":null}}`},
		"an element of a list":      {"{operation: add, path: /spec/list/-, value: x}", ""},
		"the source of a copy":      {"{operation: copy, from: /data/a, path: /data/b}", ""},
		"a list and then its index": {"{operation: add, path: /spec/containers/0/image, value: x}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed, errs := rules(t, "- conditions: {groupResource: configmaps}\n  patches: ["+tt.patches+"]").Apply(of,
				as(object))
			require.Empty(t, changed)
			require.Len(t, errs, 1)
			if tt.instead == "" {
				require.NotContains(t, errs[0].Error(), "patchData")
				return
			}
			require.ErrorContains(t, errs[0], "use mergePatches: [{patchData: '"+tt.instead+"'}] instead")
			_, errs = rules(t, "- conditions: {groupResource: configmaps}\n  mergePatches: [{patchData: '"+tt.instead+
				"'}]").Apply(of, as(object))
			require.Empty(t, errs)
		})
	}
}

func TestRulesThatNoObjectMeetsAreNamed(t *testing.T) {
	t.Parallel()
	r := rules(t, `
- conditions: {groupResource: deployments}
  mergePatches: [{patchData: '{spec: {paused: true}}'}]
- conditions: {groupResource: '*.apps'}
  mergePatches: [{patchData: '{spec: {paused: true}}'}]
- conditions: {groupResource: '*.apps', matches: [{path: /spec/paused, value: never}]}
  mergePatches: [{patchData: '{spec: {paused: true}}'}]
`)
	require.Len(t, r.Unmatched(), 3)
	_, errs := r.Apply(deploymentItem, as(deployment))
	require.Empty(t, errs)
	unmatched := r.Unmatched()
	require.Len(t, unmatched, 2)
	require.Contains(t, unmatched[0],
		`resourceModifierRules[0] applies to no object that is restored: none meets its conditions (groupResource "deployments"`)
	require.Contains(t, unmatched[1], "resourceModifierRules[2] ")
	require.Empty(t, (*Rules)(nil).Unmatched())
}

func TestUnselectedObjectsAreNotEncoded(t *testing.T) {
	t.Parallel()
	never := func() []byte { panic("not to be called") }
	changed, errs := rules(t, "- conditions: {groupResource: pods}\n  mergePatches: [{patchData: '{a: b}'}]").Apply(
		claimItem, never,
	)
	require.Nil(t, changed)
	require.Empty(t, errs)
	changed, errs = (*Rules)(nil).Apply(claimItem, never)
	require.Nil(t, changed)
	require.Empty(t, errs)
}

func TestRulesAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	shared := rules(t, `
- conditions: {groupResource: '**', matches: [{path: /spec/template/spec/containers/0, value: '{"name": "nginx", "image": "repo1/nginx"}'}]}
  patches: [{operation: add, path: /spec/x, value: '{"a": {"b": [1]}}'}, {operation: add, path: /spec/x/a/b/-, value: 2}, {operation: copy, from: /spec/x, path: /spec/y}]
- conditions: {groupResource: '**'}
  strategicPatches: [{patchData: '{spec: {template: {spec: {containers: [{name: side, image: t}]}}}}'}]
- conditions: {groupResource: '**'}
  mergePatches: [{patchData: '{metadata: {labels: {a: b}}}'}]
`)
	want, errs := shared.Apply(deploymentItem, as(deployment))
	require.Empty(t, errs)
	require.Contains(t, string(want), `"y":{"a":{"b":[1,2]}}`)
	got := make([]string, 8)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() {
			for range 20 {
				out, _ := shared.Apply(deploymentItem, as(deployment))
				got[i] = string(out)
			}
		})
	}
	group.Wait()
	for _, one := range got {
		require.JSONEq(t, string(want), one)
	}
}

func TestParseRejectsInvalidRules(t *testing.T) {
	t.Parallel()
	const fine = "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods}\n  mergePatches: " +
		"[{patchData: '{a: b}'}]\n"
	second := func(rule string) string { return fine + "- " + rule }
	const pods = "conditions: {groupResource: pods}, "
	for name, tt := range map[string]struct{ document, want string }{
		"empty":         {"", `version: "" is not supported, want v1`},
		"not YAML":      {"\t", "yaml: "},
		"a list":        {"[]", "cannot unmarshal array"},
		"other version": {"version: v2", `version: "v2" is not supported, want v1`},
		"no rules":      {"version: v1", "resourceModifierRules: the list is empty, want at least one rule"},
		"unknown field": {"version: v1\nrules: []", `unknown field "rules"`},
		"unknown field in rule": {second("{" + pods + "patch: []}"),
			`resourceModifierRules[1]: json: unknown field "patch"`},
		"unknown condition": {second("{conditions: {resource: pods}}"),
			`resourceModifierRules[1]: json: unknown field "resource"`},
		"field twice": {fine + "version: v1", `key "version" already set`},
		"no conditions": {second("{mergePatches: [{patchData: '{a: b}'}]}"),
			"resourceModifierRules[1].conditions.groupResource: it is missing, want a resource such as pods"},
		"bad glob": {second("{conditions: {groupResource: '[a'}}"),
			`resourceModifierRules[1].conditions.groupResource: "[a" is not a glob`},
		"bad namespace": {second("{conditions: {groupResource: a, namespaces: ['[a']}}"),
			`resourceModifierRules[1].conditions.namespaces: included name: pattern "[a"`},
		"bad regex": {second("{conditions: {groupResource: a, resourceNameRegex: '('}}"),
			`resourceModifierRules[1].conditions.resourceNameRegex: "(" is not a regular expression`},
		"bad selector": {second("{conditions: {groupResource: a, labelSelector: {matchLabels: {'a b': c}}}}"),
			"resourceModifierRules[1].conditions.labelSelector: "},
		"match without path": {second("{conditions: {groupResource: a, matches: [{path: /a, value: b}, {value: c}]}}"),
			"resourceModifierRules[1].conditions.matches[1].path: it is missing, want a JSON pointer"},
		"no patch": {second("{conditions: {groupResource: a}}"),
			"resourceModifierRules[1]: it has no patches, want exactly one of patches, mergePatches and strategicPatches"},
		"two kinds of patches": {second("{" + pods + "mergePatches: [{patchData: '{}'}], patches: [{}]}"),
			"resourceModifierRules[1]: it has mergePatches and patches, want exactly one"},
		"no operation": {second("{" + pods + "patches: [{path: /a}]}"),
			"resourceModifierRules[1].patches[0].operation: it is missing, want one of add, remove, replace, move, copy, test"},
		"unknown operation": {second("{" + pods + "patches: [{operation: swap, path: /a}]}"),
			`patches[0].operation: "swap" is not supported, want one of add`},
		"no path": {second("{" + pods + "patches: [{operation: remove}]}"),
			"patches[0].path: it is missing, want a JSON pointer such as /spec/replicas"},
		"path without slash": {second("{" + pods + "patches: [{operation: remove, path: spec/a}]}"),
			`patches[0].path: "spec/a" is not a JSON pointer, want one that begins with a slash`},
		"no from": {second("{" + pods + "patches: [{operation: move, path: /a}]}"),
			"patches[0].from: it is missing, want a JSON pointer"},
		"invalid JSON value": {second("{" + pods + "patches: [{operation: add, path: /a, value: '{a: b}'}]}"),
			`patches[0].value: "{a: b}" means the JSON {a: b}, which is not valid: `},
		"invalid JSON number": {second("{" + pods + "patches: [{operation: add, path: /a, value: '007'}]}"),
			`into double quotes`},
		"quote in a string": {second("{" + pods + `patches: [{operation: add, path: /a, value: 'a"b'}]}`),
			`escape quotes, backslashes and line breaks`},
		"capital boolean": {second("{" + pods + "patches: [{operation: add, path: /a, value: 'True'}]}"),
			`means the JSON True, which is not valid`},
		"patch is not an object": {second("{" + pods + "mergePatches: [{patchData: '[]'}]}"),
			"resourceModifierRules[1].mergePatches[0].patchData: want a part of an object, such as {metadata: "},
		"patch is empty": {second("{" + pods + "strategicPatches: [{}]}"),
			"resourceModifierRules[1].strategicPatches[0].patchData: want a part of an object"},
		"patch is not YAML": {second("{" + pods + "mergePatches: [{patchData: '{'}]}"),
			"resourceModifierRules[1].mergePatches[0].patchData: yaml: "},
		"patch with a key twice": {second("{" + pods + "mergePatches: [{patchData: '{a: b, a: c}'}]}"),
			`key "a" already set`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(configMap(tt.document))
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "resource modifiers in config map velero/mods: ")
			require.NotContains(t, err.Error(), "\n")
		})
	}
	_, err := Parse(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "mods"},
		Data: map[string]string{"a": "", "b": ""}})
	require.EqualError(t, err, "resource modifiers in config map velero/mods: it has 2 keys in data (a, b), want "+
		"exactly one with the YAML document")
	_, err = Parse(configMap(strings.Replace(fine, "v1", "V1", 1)))
	require.NoError(t, err, "as in Velero")
}

func TestAllRulesTogetherMakeNoObjectLarger(t *testing.T) {
	t.Parallel()
	const where = "- conditions: {groupResource: configmaps}\n  "
	double := where + "patches: [{operation: copy, from: /data, path: /data/N}]\n"
	for name, rule := range map[string]string{
		"copies":        double,
		"merge patches": where + "mergePatches: [{patchData: '{data: {N: \"" + strings.Repeat("x", 600_000) + "\"}}'}]\n",
		"strategic patches": where + "strategicPatches: [{patchData: '{data: {N: \"" + strings.Repeat("x", 600_000) +
			"\"}}'}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document := "version: v1\nresourceModifierRules:\n"
			for i := range 40 - len(rule)/20_000 { // 10 of the long ones
				document += strings.ReplaceAll(rule, "N", fmt.Sprintf("n%d", i))
			}
			rules, err := Parse(configMap(document))
			require.NoError(t, err)
			object := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"` +
				strings.Repeat("x", 100) + `"}}`)
			changed, errs := rules.Apply(Item{GroupResource: schema.GroupResource{Resource: "configmaps"}, Name: "a"},
				func() []byte { return object })
			require.NotEmpty(t, errs)
			require.LessOrEqual(t, len(changed), maxObject)
			require.ErrorContains(t, errs[len(errs)-1], "resourceModifierRules[")
		})
	}
}

// FuzzParse checks that no document and no object makes the package panic, and that a changed object is an object.
func FuzzParse(f *testing.F) {
	const head = "version: v1\nresourceModifierRules:\n- conditions: {groupResource: '**'}\n  "
	for _, seed := range []string{
		"", "version: v1", head + "patches: [{operation: add, path: /spec/x, value: 'null'}, {operation: add, path: " +
			"/spec/x/y, value: z}]",
		head + "patches: [{operation: copy, from: /spec, path: /spec/accessModes/-}, {operation: test, path: " +
			"/spec/accessModes/-1, value: '[null]'}]",
		head + "mergePatches: [{patchData: '{spec: {a: null}}'}]", head +
			"strategicPatches: [{patchData: '{spec: {accessModes: [a], $retainKeys: [b]}}'}]",
		head + "strategicPatches: [{patchData: '{$patch: replace, metadata: {ownerReferences: [{uid: 1}]}}'}]",
		"version: v1\nresourceModifierRules: [{conditions: {groupResource: '{a', resourceNameRegex: '(', labelSelector: " +
			"{}, matches: [{path: /a}]}}]",
		"a: &a [1]\nb: [*a, *a]",
	} {
		f.Add(seed, claim)
	}
	f.Add(head+"patches: [{operation: move, from: /a/0, path: /a/-}]",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"a":[null,{}]}`)
	f.Fuzz(func(t *testing.T, document, object string) {
		parsed, err := Parse(configMap(document))
		if err != nil {
			require.Nil(t, parsed)
			return
		}
		if _, err := item.ParseMeta([]byte(object)); err != nil {
			return // callers validate objects
		}
		changed, _ := parsed.Apply(claimItem, as(object))
		if changed != nil {
			require.NoError(t, checkResult([]byte(object), changed))
		}
	})
}
