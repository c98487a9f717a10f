package item_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/item"
)

const pod = `{
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {
    "name": "db-0", "namespace": "shop", "uid": "u1", "resourceVersion": "7", "generateName": null,
    "labels": {"app": "db", "quo\"te": "tab\tü\u00e9"}, "annotations": {"a/b": "{\"x\":[1]}"},
    "deletionTimestamp": "2026-01-02T03:04:05Z",
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u0", "controller": true}],
    "managedFields": [{"fieldsV1": {"f:metadata": {}}}]
  },
  "spec": {"priority": -1.5e+3, "ok": [true, false, null, {}, []]}
}`

func TestParseMetaReadsMetadataAndSkipsTheRest(t *testing.T) {
	t.Parallel()
	m, err := item.ParseMeta([]byte(strings.ReplaceAll(pod, "tab\tü", `tab\tü`)))
	require.NoError(t, err)
	require.Equal(t, item.Meta{
		APIVersion: "v1", Kind: "Pod", Name: "db-0", Namespace: "shop", UID: "u1", ResourceVersion: "7",
		DeletionTimestamp: "2026-01-02T03:04:05Z",
		Labels:            map[string]string{"app": "db", `quo"te`: "tab\tüé"},
		Annotations:       map[string]string{"a/b": `{"x":[1]}`},
		OwnerReferences:   []item.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "u0", Controller: true}},
	}, m)
	require.True(t, m.Deleting())
}

func TestParseMetaTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "expected an object",
		"null":                               "expected an object",
		"[]":                                 "expected an object",
		`{"metadata":{"name":5}}`:            "metadata.name: invalid JSON at byte 20: expected a string",
		`{"metadata":{"labels":{"a":1}}}`:    "metadata.labels: invalid JSON at byte 27",
		`{"metadata":{"labels":[]}}`:         "metadata.labels: invalid JSON at byte 22: expected an object",
		`{"metadata":"x"}`:                   "expected an object",
		`{"metadata":{"name":"a"}`:           `expected "," or "}"`,
		`{"kind":"A"}x`:                      "text after the end",
		`{"kind":"A`:                         "string does not end",
		`{"kind":"\x"}`:                      "invalid escape",
		"{\"kind\":\"a\nb\"}":                "control character",
		`{"a":01}`:                           `expected "," or "}"`,
		`{"a":tru}`:                          "expected true",
		`{"a":1.}`:                           "expected digits",
		`{"a":` + strings.Repeat("[", 1e5):   "nested deeper",
		`{"metadata":{"ownerReferences":7}}`: "metadata.ownerReferences",
	} {
		_, err := item.ParseMeta([]byte(text))
		require.ErrorContains(t, err, want, "%.60q", text)
	}
}

func TestSplitListLeavesTheItemsAsTheyAre(t *testing.T) {
	t.Parallel()
	l, err := item.SplitList([]byte(`{"kind":"PodList","apiVersion":"v1",` +
		`"metadata":{"resourceVersion":"9","continue":"next","remainingItemCount":41},` +
		`"items":[{"metadata":{"name":"a"}} , {"b":"]}"}]}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, item.List{
		APIVersion: "v1", Kind: "PodList", ResourceVersion: "9", Continue: "next", Remaining: 41,
		Items: [][]byte{[]byte(`{"metadata":{"name":"a"}}`), []byte(`{"b":"]}"}`)},
	}, l)

	l, err = item.SplitList([]byte(`{"items":null,"metadata":{"remainingItemCount":"many"}}`))
	require.NoError(t, err)
	require.Empty(t, l.Items)
	require.Zero(t, l.Remaining)

	for _, bad := range []string{`{"items":[1]}`, `{"items":{}}`, `{"items":[{}`, `{"metadata":{"continue":1}}`, `nope`} {
		_, err = item.SplitList([]byte(bad))
		require.ErrorContains(t, err, "invalid JSON at byte", bad)
	}
}

func TestWithTypePutsTheTypeInFront(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{}}`,
		string(item.WithType(nil, []byte(`{"metadata":{}}`), "apps/v1", "Deployment")))
	require.Equal(t, `{"apiVersion":"v1","kind":"Pod"}`, string(item.WithType(nil, []byte("{ \n}"), "v1", "Pod")))
}

// FuzzParseMeta proves that the scanner accepts exactly the objects that encoding/json accepts, and
// reads the same values out of them.
func FuzzParseMeta(f *testing.F) {
	f.Add([]byte(pod))
	f.Add([]byte(`{"metadata":{"name":"\ud800","labels":{"a":null}},"n":[-0,1e9,{"x":"\\\""}]}`))
	f.Add([]byte(`{"kind":"A`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := item.ParseMeta(text)
		if !json.Valid(text) {
			require.Error(t, err)
			return
		}
		var same map[string]json.RawMessage
		if json.Unmarshal(text, &same) != nil || same == nil {
			require.Error(t, err)
			return
		}
		if err != nil {
			require.NotContains(t, err.Error(), "does not end", "the text is valid")
			return
		}
		var kind string
		if raw, ok := same["kind"]; ok {
			require.NoError(t, json.Unmarshal(raw, &kind))
		}
		require.Equal(t, kind, m.Kind)
	})
}

// FuzzSplitList proves that the items of a list are the ones that encoding/json sees.
func FuzzSplitList(f *testing.F) {
	f.Add([]byte(`{"kind":"PodList","metadata":{"continue":"x","remainingItemCount":3},"items":[{"a":1},{}]}`))
	f.Add([]byte(`{"items":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := item.SplitList(text)
		if err != nil {
			return
		}
		require.True(t, json.Valid(text))
		var same map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(text, &same))
		var items []json.RawMessage
		if raw, ok := same["items"]; ok {
			require.NoError(t, json.Unmarshal(raw, &items))
		}
		require.Len(t, l.Items, len(items))
		for i := range items {
			require.Equal(t, string(items[i]), string(l.Items[i]))
			require.True(t, json.Valid(item.WithType(nil, l.Items[i], "v1", "Pod")))
		}
	})
}
