package rawitem_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/rawitem"
)

func TestSetLabelAddsOrReplacesOneLabel(t *testing.T) {
	t.Parallel()
	for item, want := range map[string]string{
		`{"kind":"Pod","metadata":{"name":"a"}}`:                                  `{"kind":"Pod","metadata":{"labels":{"k":"v"},"name":"a"}}`,
		`{"metadata":{}}`:                                                         `{"metadata":{"labels":{"k":"v"}}}`,
		`{"metadata" : { }}`:                                                      `{"metadata" : {"labels":{"k":"v"} }}`,
		`{"metadata":{"labels":null}}`:                                            `{"metadata":{"labels":{"k":"v"}}}`,
		`{"metadata":{"labels":{}}}`:                                              `{"metadata":{"labels":{"k":"v"}}}`,
		`{"metadata":{"labels":{"a":"b"},"name":"a"}}`:                            `{"metadata":{"labels":{"k":"v","a":"b"},"name":"a"}}`,
		`{"metadata":{"labels":{"a":"b","k":"old","z":""}}}`:                      `{"metadata":{"labels":{"a":"b","k":"v","z":""}}}`,
		`{"metadata":{"labels":{"\u006b":"old"}}}`:                                `{"metadata":{"labels":{"\u006b":"v"}}}`,
		`{"metadata":{"labels":{"k":"1","k":"2"}}}`:                               `{"metadata":{"labels":{"k":"1","k":"v"}}}`,
		`{"spec":{"metadata":{"labels":{"k":"w"}}},"metadata":{"name":"labels"}}`: `{"spec":{"metadata":{"labels":{"k":"w"}}},"metadata":{"labels":{"k":"v"},"name":"labels"}}`,
	} {
		before := item
		got, err := rawitem.SetLabel([]byte(item), "k", "v")
		require.NoError(t, err, item)
		require.Equal(t, want, string(got))
		require.Equal(t, before, item)
	}
	got, err := rawitem.SetAnnotation([]byte(`{"metadata":{"labels":{"k":"l"}}}`), "k", "<\"v\">\n")
	require.NoError(t, err)
	require.Equal(t, `{"metadata":{"annotations":{"k":"<\"v\">\n"},"labels":{"k":"l"}}}`, string(got))
}

func TestSetLabelRejectsInvalidItems(t *testing.T) {
	t.Parallel()
	for item, want := range map[string]string{
		"":                           "item is not JSON: unexpected end of JSON input",
		"[]":                         "item is not a JSON object",
		`{"kind":"Pod"}`:             "item has no metadata",
		`{"metadata":[]}`:            "metadata of the item is not a JSON object",
		`{"metadata":{"labels":[]}}`: "metadata.labels of the item is not a JSON object",
		`{"metadata":{}`:             "item is not JSON: unexpected end of JSON input",
	} {
		_, err := rawitem.SetLabel([]byte(item), "k", "v")
		require.EqualError(t, err, want, item)
	}
}

func TestEachMemberVisitsMembersInOrder(t *testing.T) {
	t.Parallel()
	raw := []byte(` {"a" : 1 , "\u0062":[{"c":2}],"":null} `)
	var seen []string
	require.NoError(t, rawitem.EachMember(raw, func(name []byte, from, to int) {
		seen = append(seen, string(name)+"="+string(raw[from:to]))
	}))
	require.Equal(t, []string{"a=1", `b=[{"c":2}]`, "=null"}, seen)
	require.Equal(t, len(raw)-1, rawitem.Members(raw, 1, func([]byte, int, int) {}))
	require.Equal(t, -1, rawitem.Members(raw, 0, func([]byte, int, int) {}))
	require.Error(t, rawitem.EachMember([]byte(`{"a":1}}`), func([]byte, int, int) {}))
}

// FuzzSetLabel compares SetLabel with decoding, setting and encoding.
func FuzzSetLabel(f *testing.F) {
	for _, seed := range []string{`{"kind":"K","metadata":{"labels":{"a":"b"}}}`, `{"kind":"K","metadata":{}}`,
		`{"metadata":null,"kind":"K"}`,
		`{"kind":"K","metadata":{"labels":{"k":"1"},"name":"a"},"spec":[1.5,{"\n":"\u2028"}]}`} {
		f.Add([]byte(seed), "k", "v")
	}
	f.Fuzz(func(t *testing.T, raw []byte, key, value string) {
		got, err := rawitem.SetLabel(raw, key, value)
		if err != nil || !json.Valid(raw) {
			return // it has not panicked
		}
		require.True(t, json.Valid(got), "%s", got)
		var before, after unstructured.Unstructured
		if before.UnmarshalJSON(raw) != nil {
			return
		}
		require.NoError(t, after.UnmarshalJSON(got))
		quoted, _ := json.Marshal(key)
		var wireKey string
		require.NoError(t, json.Unmarshal(quoted, &wireKey)) // without what is not UTF-8
		labels, _, _ := unstructured.NestedMap(after.Object, "metadata", "labels")
		quoted, _ = json.Marshal(value)
		require.NoError(t, json.Unmarshal(quoted, &value))
		require.Equal(t, value, labels[wireKey])
		unstructured.RemoveNestedField(after.Object, "metadata", "labels", wireKey)
		unstructured.RemoveNestedField(before.Object, "metadata", "labels", wireKey)
		if labels, found, _ := unstructured.NestedMap(before.Object, "metadata", "labels"); !found || len(labels) == 0 {
			unstructured.RemoveNestedField(before.Object, "metadata", "labels")
			unstructured.RemoveNestedField(after.Object, "metadata", "labels")
		}
		require.Equal(t, before.Object, after.Object)
	})
}
