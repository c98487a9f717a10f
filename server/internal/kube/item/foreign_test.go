package item_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// TestForeignObjectsAreReadInOneWay decodes objects that decoders read differently. ParseMeta accepts all of them.
func TestForeignObjectsAreReadInOneWay(t *testing.T) {
	t.Parallel()
	deep := func(inner string) string { return `{"spec":{"a":[{"b":` + inner + `}]}}` }
	for text, want := range map[string]string{
		`{"spec":{},"spec":{}}`:                             `duplicate object member name "spec"`,
		`{"kind":"A","kind":"A"}`:                           `duplicate object member name "kind"`,
		`{"metadata":{"name":"a"},"metadata":{}}`:           `duplicate object member name "metadata"`,
		`{"metadata":{"name":"a","name":"b"}}`:              `duplicate object member name "name"`,
		`{"metadata":{"labels":{"a":"b","a":"c"}}}`:         `duplicate object member name "a"`,
		`{"metadata":{"ownerReferences":[{"x":{},"x":1}]}}`: `duplicate object member name "x"`,
		`{"metadata":{"managedFields":[{"x":1,"x":1}]}}`:    `duplicate object member name "x"`,
		deep(`{"nfs":{},"nfs":null}`):                       `duplicate object member name "nfs"`,
		deep(`{"n":1,"\u006e":2}`):                          `duplicate object member name "n"`,
		deep("{\"\xff\":1}"):                                "invalid UTF-8",
		deep("\"\xff\""):                                    "invalid UTF-8",
		deep(`"\ud800"`):                                    "surrogate",
		deep(`1E400`):                                       "number 1E400 does not fit into 64 bits",
		deep(`[-9223372036854775809]`):                      "number -9223372036854775809 does not fit",
		deep(`1` + strings.Repeat("0", 400)):                "0... does not fit into 64 bits",
	} {
		_, err := item.ParseMeta([]byte(text))
		require.NoError(t, err, text)
		_, err = item.ParseForeign([]byte(text))
		require.ErrorContains(t, err, want, text)
		_, err = item.DecodeForeign([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	for _, text := range []string{
		pod, deep(`{"a":1,"A":2}`), deep(`[9223372036854775807,-9223372036854775808,1.5e300,-0]`), deep(`"\ud83d\ude00"`),
		`{"metadata":{"labels":{"A":"1","a":"1"}}}`,
	} {
		want, err := item.ParseMeta([]byte(text))
		require.NoError(t, err)
		got, err := item.ParseForeign([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
}

// TestFieldsAreThoseOfTheirTags shows that "Spec" is not "spec", as for the API server.
func TestFieldsAreThoseOfTheirTags(t *testing.T) {
	t.Parallel()
	var got, other struct {
		Spec struct {
			Policy string `json:"policy"`
		} `json:"spec"`
	}
	const text = `{"spec":{"policy":"Delete","POLICY":"Retain"},"Spec":{"policy":"Retain"}}`
	require.NoError(t, item.Unmarshal([]byte(text), &got))
	require.Equal(t, "Delete", got.Spec.Policy)
	require.NoError(t, json.Unmarshal([]byte(text), &other))
	require.Equal(t, "Retain", other.Spec.Policy)
}

// FuzzParseForeign verifies that the API server reads the same from an object, whether it decodes it into a type or
// into a map, or that ParseForeign refuses it.
func FuzzParseForeign(f *testing.F) {
	f.Add([]byte(pod))
	for _, text := range []string{
		`{"metadata":{"name":"a","Name":"b","labels":{"a":"b","A":null}},"Metadata":{"name":"c"}}`,
		`{"metadata":{"name":"a"},"metadata":{"namespace":"b"}}`, `{"spec":{"a":1,"\u0061":2}}`, "{\"a\":\"\xff\"}",
		`{"n":[9223372036854775807,9223372036854775808,1e400,1E-400,-0,1.0]}`, `{"a":"\ud800\ud83d\ude00"}`,
		`{"metadata":{"ownerReferences":[{"name":"a","uid":"b","controller":true},null]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		meta, err := item.ParseForeign(text)
		if err != nil {
			return
		}
		var object map[string]any
		twice, err := kjson.UnmarshalStrict(text, &object, kjson.DisallowDuplicateFields)
		require.NoError(t, err)
		require.Empty(t, twice)
		decoded, err := item.DecodeForeign(text)
		require.NoError(t, err)
		encoded, err := json.Marshal(decoded)
		require.NoError(t, err)
		var again map[string]any
		require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts(encoded, &again))
		require.Equal(t, object, again)

		var typed metav1.PartialObjectMetadata
		if kjson.UnmarshalCaseSensitivePreserveInts(text, &typed) != nil {
			return // the API server refuses it
		}
		require.Equal(t, typed.APIVersion, meta.APIVersion)
		require.Equal(t, typed.Kind, meta.Kind)
		require.Equal(t, typed.Name, meta.Name)
		require.Equal(t, typed.GenerateName, meta.GenerateName)
		require.Equal(t, typed.Namespace, meta.Namespace)
		require.Equal(t, string(typed.UID), meta.UID)
		require.Equal(t, typed.ResourceVersion, meta.ResourceVersion)
		require.Subset(t, meta.Labels, typed.Labels)
		require.Len(t, meta.Labels, len(typed.Labels))
		require.Subset(t, meta.Annotations, typed.Annotations)
		require.Len(t, meta.Annotations, len(typed.Annotations))
		require.Len(t, meta.OwnerReferences, len(typed.OwnerReferences))
		for i := range meta.OwnerReferences {
			is, own := meta.OwnerReferences[i], typed.OwnerReferences[i]
			require.Equal(t, own.Name, is.Name)
			require.Equal(t, string(own.UID), is.UID)
			require.Equal(t, own.Controller != nil && *own.Controller, is.Controller)
		}
	})
}

func BenchmarkParseMeta(b *testing.B) {
	text := []byte(strings.Replace(pod, `"ok": [`,
		`"containers": [`+strings.Repeat(`{"name":"c","image":"registry.example/app:1","env":[{"name":"A","value":"text"},`+
			`{"name":"B","value":"text"}],"ports":[{"containerPort":8080}],"resources":{"requests":{"cpu":"1"}}},`, 10)+`{}], "ok": [`, 1))
	for name, parse := range map[string]func([]byte) (item.Meta, error){
		"Own": item.ParseMeta, "Foreign": item.ParseForeign,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
