package object

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	kjson "sigs.k8s.io/json"
)

func TestObjectKeepsOtherFieldsAsTheyAre(t *testing.T) {
	t.Parallel()
	const text = `{ "apiVersion":"v1","kind":"X", "metadata":{"name":"n","namespace":"a","uid":"u","x\"y":"\\","labels":{"l":"1"},"annotations":{"a":"1","b":"2"},
		"managedFields":[{"manager":"m"}],"generateName":"g-","ownerReferences":[{}],"finalizers":["f"]} ,"spec":{"n":1.50,"s":"}{\"\\\\"},"status":{"a":[]},"data":null}`
	o, err := Decode([]byte(text))
	require.NoError(t, err)
	require.JSONEq(t, text, string(o.Encode()))
	o.Reset()
	o.SetNamespace("b")
	o.SetLabel("m", "2")
	o.RemoveAnnotations("a", "nope")
	require.JSONEq(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"n","namespace":"b","x\"y":"\\","labels":{"l":"1","m":"2"},"annotations":{"b":"2"},"finalizers":["f"]},
		"spec":{"n":1.50,"s":"}{\"\\\\"},"data":null}`, string(o.Encode("managedFields")))
	require.Contains(t, string(o.Encode()), `"n":1.50`, "numbers stay as they were written")
	o.RemoveAnnotations("b")
	require.NotContains(t, string(o.Encode()), "annotations")
}

// TestOrdersAreRemoved removes what servers act upon, wherever the object has it, and nothing else.
func TestOrdersAreRemoved(t *testing.T) {
	t.Parallel()
	o, err := Decode([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"n",
		"labels":{"velero.io/restore-uid":"U","velero.io/backup-uid":"1","cleat.dev/rehearsal":"1","velero.io/own":"1","a":"b"},
		"annotations":{"cleat\u002edev/reclaim-policy":"Retain","post.hook.restore.velero.io/command":"c"},
		"finalizers":["velero.io/pod-volume-finalizer","example.io/f","cleat.dev/new"],
		"ownerReferences":[{"apiVersion":"velero.io/v1","kind":"Restore","name":"r","uid":"1"},{"apiVersion":"v1","kind":"Pod","name":"p","uid":"2","x":1}]}}`))
	require.NoError(t, err)
	o.RemoveOrders("U")
	require.JSONEq(t, `{"apiVersion":"v1","kind":"X","metadata":{"name":"n",
		"labels":{"velero.io/restore-uid":"U","velero.io/own":"1","a":"b"},
		"annotations":{"post.hook.restore.velero.io/command":"c"}, "finalizers":["example.io/f"],
		"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"2","x":1}]}}`, string(o.Encode()))
	o.RemoveOrders("V")
	require.NotContains(t, string(o.Encode()), "restore-uid")
}

// TestFieldsAreNotLimited shows that one level may have thousands of fields, as in a custom resource. If a key occurs
// twice, the last value counts.
func TestFieldsAreNotLimited(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(`{"f1":"first"`)
	for i := range 5000 {
		fmt.Fprintf(&text, `,"f%d":%d`, i, i)
	}
	text.WriteString(`,"f4000":"last"}`)
	fields, err := Split([]byte(text.String()))
	require.NoError(t, err)
	require.Len(t, fields, 5000)
	require.Equal(t, "1", string(fields.Get("f1")))
	require.Equal(t, `"last"`, string(fields.Get("f4000")))
	require.Equal(t, "4999", string(fields.Get("f4999")))
}

// asTheAPIServer decodes an object as the API server does, and fails if that depends on the decoder.
func asTheAPIServer(t *testing.T, raw []byte) (decoded map[string]any) {
	t.Helper()
	twice, err := kjson.UnmarshalStrict(raw, &decoded, kjson.DisallowDuplicateFields)
	require.NoError(t, err)
	require.Empty(t, twice)
	return decoded
}

// FuzzDecode decodes any text. If it is accepted as an object, encoding it must give the API server the same object.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"n","labels":{"a":"b"}},"spec":{"a":[1,"\\\"",{}]},"status":null}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"n"},"metadata":{"name":"m"},"\u0061":1}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"n","Name":"m"},"Kind":"Y","n":[1.0,1e3,9223372036854775807]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := Decode(raw)
		if err != nil {
			return
		}
		require.Equal(t, asTheAPIServer(t, raw), asTheAPIServer(t, o.Encode()))
		again, err := Decode(o.Encode())
		require.NoError(t, err)
		require.Equal(t, o.Name, again.Name)
		o.Reset()
		o.SetLabel("a", "b")
		o.RemoveOrders("any")
		require.True(t, json.Valid(o.Encode("managedFields")))
	})
}
