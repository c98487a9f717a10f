package restoreitemaction

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestValidateItemRequiresAnObject(t *testing.T) {
	t.Parallel()
	const sent = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"}}`
	for name, test := range map[string]struct{ answered, want string }{
		"unchanged":    {sent, ""},
		"another kind": {`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"namespace":"shop","name":"web"}}`, ""},
		"another name": {`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web-2"}}`,
			""},
		"another namespace": {`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"bank","name":"web"}}`,
			""},
		"empty":         {"", "item is empty"},
		"garbage":       {"garbage", "item is not JSON"},
		"null":          {"null", "item is not a JSON object"},
		"no apiVersion": {`{"kind":"Deployment","metadata":{"name":"web"}}`, "item has no apiVersion"},
		"no kind":       {`{"apiVersion":"apps/v1","metadata":{"name":"web"}}`, "item has no kind"},
		"no name": {`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop"}}`,
			"item has no metadata.name"},
		"no metadata": {`{"apiVersion":"apps/v1","kind":"Deployment"}`, "item has no metadata.name"},
	} {
		err := validateItem([]byte(sent), []byte(test.answered))
		if test.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.want, name)
		}
	}
}

// FuzzValidateItem proves that every accepted item decodes to an object that can be created.
func FuzzValidateItem(f *testing.F) {
	for _, seed := range []string{"", "null", `{}`, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answered []byte) {
		if validateItem([]byte("x"), answered) != nil || string(answered) == "x" {
			return
		}
		item := decode(t, answered)
		require.NotEmpty(t, item.GetKind())
		require.NotEmpty(t, item.GetAPIVersion())
		require.NotEmpty(t, item.GetName())
	})
}

// decode decodes raw as all code after the facade does, except for numbers out of range.
func decode(t *testing.T, raw []byte) (item unstructured.Unstructured) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&item.Object))
	require.NotNil(t, item.Object)
	return item
}
