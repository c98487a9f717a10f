package field_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

type object = map[string]any

// decode decodes text as for an action: whole numbers are int64, all others float64.
func decode(t *testing.T, text string) object {
	t.Helper()
	decoded := &unstructured.Unstructured{}
	require.NoError(t, decoded.UnmarshalJSON([]byte(`{"kind":"Any",`+text[1:])))
	delete(decoded.Object, "kind")
	return decoded.Object
}

func encode(t *testing.T, root object) string {
	t.Helper()
	text, err := json.Marshal(root)
	require.NoError(t, err)
	return string(text)
}

func TestReadReturnsExistingFields(t *testing.T) {
	t.Parallel()
	root := decode(t, `{"o":{"s":"x","n":3,"b":true,"l":[{"a":1}]}}`)
	got, err := field.Object(root, "o")
	require.NoError(t, err)
	require.Len(t, got, 4)
	text, err := field.Text(root, "o", "s")
	require.NoError(t, err)
	require.Equal(t, "x", text)
	number, err := field.Integer(root, "o", "n")
	require.NoError(t, err)
	require.EqualValues(t, 3, number)
	is, err := field.True(root, "o", "b")
	require.NoError(t, err)
	require.True(t, is)
	objects, err := field.Objects(root, "o", "l")
	require.NoError(t, err)
	require.Equal(t, []object{{"a": int64(1)}}, objects)
}

func TestAbsentAndNullFieldsReadAsEmpty(t *testing.T) {
	t.Parallel()
	root := decode(t, `{"o":{"null":null}}`)
	for _, path := range [][]string{{"no"}, {"no", "s"}, {"o", "no"}, {"o", "null"}, {"o", "null", "s"}} {
		got, err := field.Object(root, path...)
		require.NoError(t, err)
		require.Nil(t, got)
		text, err := field.Text(root, path...)
		require.NoError(t, err)
		require.Empty(t, text)
		number, err := field.Integer(root, path...)
		require.NoError(t, err)
		require.Zero(t, number)
		objects, err := field.Objects(root, path...)
		require.NoError(t, err)
		require.Nil(t, objects)
	}
}

func TestIntegerAcceptsAllFormsOfWholeNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{`30080`: 30080, `30080.0`: 30080, `-1`: -1} {
		got, err := field.Integer(decode(t, `{"n":`+text+`}`), "n")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		`1.5`:     "n is the number 1.5, want a whole number",
		`1e300`:   "n is the number 1e+300, want a whole number",
		`"30080"`: "n is a string, want a whole number",
	} {
		_, err := field.Integer(decode(t, `{"n":`+text+`}`), "n")
		require.EqualError(t, err, want)
	}
}

func TestErrorOfWrongTypeNamesField(t *testing.T) {
	t.Parallel()
	root := decode(t, `{"o":{"s":"x","n":3,"l":[{},7]}}`)
	last := func(_ any, err error) error { return err }
	tests := []struct {
		err  error
		want string
	}{
		{last(field.Object(root, "o", "s")), "o.s is a string, want an object"},
		{last(field.Text(root, "o", "s", "deeper")), "o.s is a string, want an object"},
		{last(field.Text(root, "o", "n")), "o.n is a number, want a string"},
		{last(field.List(root, "o")), "o is an object, want a list"},
		{last(field.True(root, "o", "n")), "o.n is a number, want true or false"},
		{last(field.Integer(root, "o", "l")), "o.l is a list, want a whole number"},
		{last(field.Objects(root, "o", "l")), "o.l[1] is a number, want an object"},
		{last(field.Remove(root, "o", "s", "deeper")), "o.s is a string, want an object"},
		{last(field.Drop(root, field.OneOf(), "o", "s")), "o.s is a string, want an object"},
		{last(field.Drop(root, field.OneOf("s"), "o")), "o.l is a list, want a string"},
		{field.In("o.l", 4, errors.New("name is a list, want a string")), "o.l[4].name is a list, want a string"},
	}
	for _, test := range tests {
		require.EqualError(t, test.err, test.want)
	}
	require.NoError(t, field.In("o.l", 4, nil))
}

func TestDropRemovesKeysAndEmptiedObjects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before, after string
		dropped       []string
	}{
		"some":          {`{"m":{"a":"1","b":"2","c":"3"}}`, `{"m":{"b":"2"}}`, []string{"a", "c"}},
		"all":           {`{"m":{"a":"1","c":"3"},"n":1}`, `{"n":1}`, []string{"a", "c"}},
		"none":          {`{"m":{"b":"2"}}`, `{"m":{"b":"2"}}`, nil},
		"nothing there": {`{"n":1}`, `{"n":1}`, nil},
		"empty stays":   {`{"m":{}}`, `{"m":{}}`, nil},
	}
	for name, test := range tests {
		root := decode(t, test.before)
		dropped, err := field.Drop(root, field.OneOf("a", "c"), "m")
		require.NoError(t, err, name)
		require.Equal(t, test.dropped, dropped, name)
		require.JSONEq(t, test.after, encode(t, root), name)
	}
}

func TestRemoveReportsWhetherFieldExisted(t *testing.T) {
	t.Parallel()
	root := decode(t, `{"o":{"s":"x","null":null},"t":1}`)
	for _, test := range []struct {
		path []string
		want bool
	}{
		{[]string{"o", "s"}, true},
		{[]string{"o", "s"}, false},
		{[]string{"o", "null"}, true},
		{[]string{"no", "s"}, false},
		{[]string{"t"}, true},
	} {
		got, err := field.Remove(root, test.path...)
		require.NoError(t, err)
		require.Equal(t, test.want, got, test.path)
	}
	require.JSONEq(t, `{"o":{}}`, encode(t, root))
}
