package item_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
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
		OwnerReferences: []item.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "u0",
			Controller: true}},
	}, m)
	require.True(t, m.Deleting())
}

func TestParseMetaReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "invalid JSON at byte 0: EOF",
		"null":                               "want an object, got null",
		"[]":                                 "want an object, got [",
		`{"metadata":{"name":5}}`:            "invalid JSON at byte 21: metadata.name: want a string, got number",
		`{"metadata":{"labels":{"a":1}}}`:    "invalid JSON at byte 28: metadata.labels: want a string, got number",
		`{"metadata":{"labels":[]}}`:         "invalid JSON at byte 23: metadata.labels: want an object, got [",
		`{"metadata":"x"}`:                   "want an object, got string",
		`{"metadata":{"name":"a"}`:           "unexpected EOF",
		`{"kind":"A"}x`:                      "invalid character 'x' at start of value",
		`{"kind":"A"}{}`:                     "text follows the object",
		`{"kind":"A`:                         `kind: jsontext: unexpected EOF within "/kind" after offset 10`,
		`{"kind":"\x"}`:                      "invalid escape sequence",
		"{\"kind\":\"a\nb\"}":                "invalid character '\\n' in string",
		`{"a":01}`:                           `invalid character '1' after object value`,
		`{"a":tru}`:                          "invalid character '}' in literal true",
		`{"a":1.}`:                           "invalid character '}' in number",
		`{"a":` + strings.Repeat("[", 1e5):   "exceeded max depth",
		`{"metadata":{"ownerReferences":7}}`: "metadata.ownerReferences: want an array, got number",
	} {
		_, err := item.ParseMeta([]byte(text))
		require.ErrorContains(t, err, want, "%.60q", text)
	}
}

func TestParseMetaAcceptsWhatEncodingJSONAccepts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"a":1,"a":2}`, `{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, "{\"a\":\"\xff\"}", "{\"\xff\":1}", `{"a":-0,"b":1E400}`,
		"\ufeff{}",
		`{"a":` + strings.Repeat("[", 9998) + strings.Repeat("]", 9998) + "}", `{"a":` + strings.Repeat("[", 9999) +
			strings.Repeat("]", 9999) + "}",
		`{"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + "}", `{"a":` + strings.Repeat("[", 10001) +
			strings.Repeat("]", 10001) + "}",
		"{} \t\r\n", "{}\v", "{}\x00", "{'a':1}", `{"a":NaN}`, `{"a":+1}`, `{"a":.5}`, `{"a":1,}`, `{,}`, `{"a"}`,
		`{"a":[1,]}`, `{"a":"\u12g4"}`, "{\"a\":\"\x7f\"}",
	} {
		_, err := item.ParseMeta([]byte(text))
		require.Equal(t, json.Valid([]byte(text)), err == nil, "%.60q: %v", text, err)
	}
}

func TestSplitListKeepsItemsAsRawJSON(t *testing.T) {
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

func TestWithTypePrependsTheType(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{}}`,
		string(item.WithType(nil, []byte(`{"metadata":{}}`), "apps/v1", "Deployment")))
	require.Equal(t, `{"apiVersion":"v1","kind":"Pod"}`, string(item.WithType(nil, []byte("{ \n}"), "v1", "Pod")))
}

// FuzzParseMeta verifies that ParseMeta accepts exactly the objects that encoding/json accepts, except for fields of a
// wrong type, and reads the same values.
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
			require.ErrorContains(t, err, "want ", "the text is valid")
			return
		}
		var kind string
		if raw, ok := same["kind"]; ok {
			require.NoError(t, json.Unmarshal(raw, &kind))
		}
		require.Equal(t, kind, m.Kind)
	})
}

// FuzzSplitList verifies that SplitList finds the same items as encoding/json.
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
