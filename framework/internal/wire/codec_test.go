package wire_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/internal/wire"
)

// slowEncode encodes with encoding/json, without its escapes for HTML.
func slowEncode(value any) ([]byte, error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(encoded.Bytes(), []byte("\n")), err
}

// requireSameAsApimachinery decodes and encodes raw with both implementations and compares the results.
func requireSameAsApimachinery(t *testing.T, raw []byte) {
	t.Helper()
	var want unstructured.Unstructured
	wantErr := want.UnmarshalJSON(raw)
	got, err := wire.DecodeItem("item", raw)
	if wantErr != nil {
		require.EqualError(t, err, "decode item of the request: "+wantErr.Error())
		return
	}
	require.NoError(t, err)
	require.Equal(t, want.Object, got.Object)
	wantEncoded, err := slowEncode(want.Object)
	require.NoError(t, err)
	encoded, err := wire.EncodeUpdated(got, raw)
	require.NoError(t, err)
	require.Equal(t, string(wantEncoded), string(encoded))
}

func odd() []string {
	object := func(value string) string { return `{"apiVersion":"v1","kind":"K","value":` + value + `}` }
	seeds := []string{
		"", "null", "[]", "{", "{}", `{"kind":"K"} x`, `{"kind":"K",}`, `{"kind":"K","a":1,"a":{"b":2},"a":{}}`, `{"kind":5}`,
		`{"apiVersion":"a/b/c","kind":"K"}`,
		" \t\r\n{ \"kind\" : \"K\" , \"a\" : [ 1 , 2 ] } \n", `{"kind":"List","items":[{"kind":"K"}]}`, `{"kind":"K" "a":1}`,
		`{"kind":"K","a"}`, `{"kind":"K","a":}`,
		`{"k\u0069nd":"K"}`, "{\"kind\":\"K\",\"\xff\":1}",
	}
	for _, value := range []string{
		"0", "-0", "-", "01", "1.", ".5", "1.5", "-1.5e+10", "1E5", "1e", "1e400", "9223372036854775807",
		"9223372036854775808", "-9223372036854775808", "1e-7", "1e21", "100000000000000000000",
		"true", "truex", "fals", "null", "nul", "[]", "[1,]", "[1 2]", "{}", "[[[[]]]]",
		`"plain text that is longer than eight bytes"`, `"12345678\"12345678\\"`, `"\u00e9\ud83d\ude00é😀"`, `"\ud83d"`,
		`"\ude00\ud83d"`, `"\ud83d\u0041"`, `"\ud83dx"`, `"\ud83d\n"`, `"\u12"`, `"\u12g4"`, `"\u+123"`,
		`"\/\b\f\n\r\t\u0000\u001f\u007f"`, `"\x"`, `"\`, `"`, "\"a\nb\"", "\"\x7f\"", "\"\xff\"",
		"\"\xe2\x28\xa1 and more\"", `"\u2028` + "\u2028\u2029" + `"`, `"<a&b>"`, `"\ufffd` + "\ufffd" + `"`,
		strings.Repeat("[", 150) + strings.Repeat("]", 150), strings.Repeat("[", 300) +
			strings.Repeat("]", 300), strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300),
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	} {
		seeds = append(seeds, object(value))
	}
	return seeds
}

func TestItemCodecMatchesApimachinery(t *testing.T) {
	t.Parallel()
	for _, raw := range odd() {
		requireSameAsApimachinery(t, []byte(raw))
	}
}

func FuzzItemsAreDecodedAndEncodedAsApimachineryDoes(f *testing.F) {
	for _, raw := range odd() {
		f.Add([]byte(raw))
	}
	f.Fuzz(requireSameAsApimachinery)
}

func TestAuthorsValuesAreEncodedLikeEncodingJSON(t *testing.T) {
	t.Parallel()
	type named string
	object := map[string]any{
		"int": 5, "int32": int32(-5), "uint8": uint8(7), "float": 1e21, "small": 1e-9, "whole": float64(3),
		"strings": []string{"<a>"},
		"labels":  map[string]string{"b": "2", "a": "1"}, "nothing": map[string]any(nil), "none": []any(nil),
		"empty":  []any{},
		"named":  named("n"),
		"number": json.Number("1.50"), "raw": json.RawMessage(`{"a" : 1}`), "struct": struct{ A, b int }{1, 2},
		"text": "\x00\x1f\x7f\"\\\b\f\n\r\t é \u2028 \xff end",
		"":     "empty key", "many": map[string]any{},
	}
	many, ok := object["many"].(map[string]any)
	require.True(t, ok)
	for i := range 40 {
		many[strings.Repeat("k", i)] = int64(i)
	}
	want, err := slowEncode(object)
	require.NoError(t, err)
	encoded, err := wire.EncodeUpdated(&unstructured.Unstructured{Object: object}, nil)
	require.NoError(t, err)
	require.Equal(t, string(want), string(encoded))

	for _, wrong := range []any{math.NaN(), []any{func() {}}, map[string]any{"a": make(chan int)}} {
		_, err := wire.EncodeUpdated(&unstructured.Unstructured{Object: map[string]any{"a": wrong}}, nil)
		require.ErrorContains(t, err, "encode the updated item: json: unsupported")
	}
}

func BenchmarkItem(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "500KiB": 500 << 10} {
		line := `some.setting.of.the.shop: \"a value\" # with a comment\n`
		raw := []byte(`{"apiVersion":"v1","data":{"file":"` + strings.Repeat(line, size/len(line)) +
			`"},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"}}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				item, err := wire.DecodeItem("item", raw)
				if err == nil {
					_, err = wire.EncodeUpdated(item, raw)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
