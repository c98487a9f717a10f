package configmap

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestDocumentRequiresOneKey(t *testing.T) {
	t.Parallel()
	document, err := Document(&corev1.ConfigMap{Data: map[string]string{"any.name": "a: b"}})
	require.NoError(t, err)
	require.Equal(t, "a: b", string(document))

	for want, cm := range map[string]*corev1.ConfigMap{
		"no key in data":        {},
		"is in binaryData":      {BinaryData: map[string][]byte{"a": nil}},
		"2 keys in data (a, b)": {Data: map[string]string{"b": "", "a": ""}},
	} {
		_, err := Document(cm)
		require.ErrorContains(t, err, want)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	type shape struct {
		Text  string   `json:"text"`
		Items []string `json:"items"`
	}
	got, err := Decode[shape]([]byte("text: true\nitems: [1, two]"))
	require.NoError(t, err)
	require.Equal(t, shape{"true", []string{"1", "two"}}, got, "scalars must become strings in string fields")

	for want, document := range map[string]string{
		`json: unknown field "texts"`: "texts: a",
		`key "text" already set`:      "text: a\ntext: b",
		"yaml: line 2":                "text: a\n\tb",
		"cannot unmarshal":            "items: {}",
	} {
		_, err := Decode[shape]([]byte(document))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "error unmarshaling JSON")
	}
}

func TestErrorsHaveOneLine(t *testing.T) {
	t.Parallel()
	_, err := JSON([]byte("a: b\na: c"))
	require.EqualError(t, err, `yaml: unmarshal errors: line 2: key "a" already set in map`)
	out, err := JSON([]byte("a: [b, 1]"))
	require.NoError(t, err)
	require.JSONEq(t, `{"a":["b",1]}`, string(out))
}

// TestDecodeKnownNamesTheOtherKeys has unknown keys on each level, and known ones in other cases.
func TestDecodeKnownNamesTheOtherKeys(t *testing.T) {
	t.Parallel()
	type inner struct {
		Text string `json:"text"`
	}
	type shape struct {
		inner
		Items []inner           `json:"items"`
		By    map[string]*inner `json:"by"`
		Any   any               `json:"any"`
	}
	got, ignored, err := DecodeKnown[shape]([]byte("TEXT: a\nitems: [{text: b}, {texts: c}]\n" +
		"by: {x: {text: d, more: {}}}\n" +
		"any: {more: 1}\nmore: [1]"))
	require.NoError(t, err)
	require.Equal(t, shape{inner{"a"}, []inner{{"b"}, {}}, map[string]*inner{"x": {"d"}},
		map[string]any{"more": 1.0}}, got)
	require.Equal(t, []string{"by.x.more", "items[1].texts", "more"}, ignored)
	for want, document := range map[string]string{
		`key "text" already set`: "text: a\ntext: b", "cannot unmarshal": "items: {}", "yaml: line 2": "text: a\n\tb",
	} {
		_, _, err := DecodeKnown[shape]([]byte(document))
		require.ErrorContains(t, err, want)
	}
}
