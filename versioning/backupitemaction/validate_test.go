package backupitemaction

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestValidateItemRequiresTheSameObject(t *testing.T) {
	t.Parallel()
	const sent = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"}}`
	for name, test := range map[string]struct{ sent, answered, want string }{
		"unchanged":           {sent, sent, ""},
		"unchanged, whatever": {"not even JSON", "not even JSON", ""},
		"changed": {sent,
			`{"kind":"Deployment","metadata":{"name":"web","namespace":"shop","labels":{}},"apiVersion":"apps/v1"}`, ""},
		"another API version": {sent,
			`{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"}}`, ""},
		"core, cluster-scoped": {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}`,
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},"spec":{}}`, ""},
		"empty":     {sent, "", "item is empty"},
		"garbage":   {sent, "\x00\xff", "item is not JSON"},
		"null":      {sent, "null", "item is not a JSON object"},
		"a list":    {sent, "[" + sent + "]", "item is not a JSON object"},
		"cut short": {sent, sent[:40], "item is not JSON: unexpected end"},
		"no apiVersion": {sent, `{"kind":"Deployment","metadata":{"namespace":"shop","name":"web"}}`,
			`item has no apiVersion, want "apps/v1"`},
		"no kind": {sent, `{"apiVersion":"apps/v1","metadata":{"namespace":"shop","name":"web"}}`,
			`item has kind "", want "Deployment"`},
		"another kind": {sent,
			`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"namespace":"shop","name":"web"}}`,
			`item has kind "DaemonSet", want "Deployment"`},
		"another group": {sent,
			`{"apiVersion":"extensions/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"}}`,
			`item has apiVersion "extensions/v1", want group "apps"`},
		"another namespace": {sent,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"bank","name":"web"}}`,
			`item has namespace "bank", want "shop"`},
		"no namespace": {sent, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}`,
			`item has namespace "", want "shop"`},
		"another name": {sent,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"db"}}`,
			`item has name "db", want "web"`},
		"no metadata": {sent, `{"apiVersion":"apps/v1","kind":"Deployment"}`,
			`item has namespace "", want "shop"`},
		"asked about what is not an object": {"garbage", sent, "the item sent to the action is not JSON"},
	} {
		err := validateItem([]byte(test.sent), []byte(test.answered))
		if test.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.want, name)
		}
	}
}

// FuzzValidateItem proves that the archive can hold all accepted bytes as that object.
func FuzzValidateItem(f *testing.F) {
	sent := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"n","name":"a"}}`)
	for _, seed := range []string{"", "null", `{}`, string(sent), string(sent) + " ",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"n","name":"b"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answered []byte) {
		if validateItem(sent, answered) != nil {
			return
		}
		requireSameObject(t, answered)
	})
}

// requireSameObject requires the Pod n/a of the core group.
func requireSameObject(t *testing.T, raw []byte) {
	t.Helper()
	item := decode(t, raw)
	require.Equal(t, "Pod", item.GetKind())
	require.Empty(t, item.GroupVersionKind().Group)
	require.Equal(t, "n", item.GetNamespace())
	require.Equal(t, "a", item.GetName())
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
