package foreign_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	kjson "sigs.k8s.io/json"

	"github.com/cleat-dev/cleat/server/internal/kube/foreign"
)

type thing struct {
	Name   string             `json:"name"`
	Parts  map[string]*thing  `json:"parts"`
	Labels map[string]string  `json:"labels"`
	More   []*thing           `json:"more"`
	Lists  map[string][]int64 `json:"lists"`
}

func small() foreign.Limits {
	return foreign.Limits{Bytes: 200, Elements: 3, Element: 60, Values: 40, Depth: 5}
}

func collect(r io.Reader, limits foreign.Limits) (names []string, err error) {
	for one, err := range foreign.List[thing](r, limits) {
		if err != nil {
			return names, err
		}
		names = append(names, one.Name)
	}
	return names, nil
}

func TestLists(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`null`:                                 nil,
		" [ ] \n":                              nil,
		`[{"name":"a"}, {"name":"b"}]`:         {"a", "b"},
		`[{}]`:                                 {""},
		`[{"name":null,"parts":null}]`:         {""},
		`[{"Name":"a","name":"b"}]`:            {"b"}, // names are compared exactly
		`[{"name":"a","Name":null,"NAME":{}}]`: {"a"},
	} {
		got, err := collect(strings.NewReader(text), small())
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		``:                              "unexpected EOF",
		`[`:                             "unexpected EOF",
		`[{"name":"a"}`:                 "unexpected EOF",
		`{}`:                            "it is {, want a list",
		`"a"`:                           "want a list",
		`[null]`:                        "/0: it is null, want a value",
		`[{},null]`:                     "/1: it is null, want a value",
		`[{"more":[{},null]}]`:          "/0/more/1: it is null, want a value",
		`[{"name":"a","name":"b"}]`:     `duplicate object member name "name"`,
		`[{"parts":{"a":{},"a":null}}]`: `duplicate object member name "a"`,
		`[1]`:                           "/0: json: cannot unmarshal number",
		`[{"name":1}]`: "/0: json: cannot unmarshal number into Go struct field thing.name of type " +
			"string",
		`[] []`:                              "more follows after the list",
		`[]]`:                                "invalid character",
		`[{},{},{},{}]`:                      "/3: the list has more than 3 elements",
		`[{"more":[{"more":[{"more":[]}]`:    "unexpected EOF",
		`[{"more":[{"more":[{}]}]}]`:         "/0/more/0/more/0: it is more than 5 levels deep",
		`[{"name":"` + rep("a", 150) + `"}]`: "an element is larger than the limit of 60 bytes",
		`[{"name":"` + rep("a", 150):         "an element is larger than the limit of 60 bytes",
		rep(" ", 300):                        "larger than the limit",
		`[` + rep(" ", 300):                  "larger than the limit",
		`[]` + rep(" ", 300):                 "larger than the limit",
		"[{\"name\":\"\xff\"}]":              "invalid UTF-8",
	} {
		_, err := collect(strings.NewReader(text), small())
		require.ErrorIs(t, err, foreign.ErrInvalid, text)
		require.ErrorContains(t, err, want, text)
	}
	many := small()
	many.Values = 7
	_, err := collect(strings.NewReader(`[{"name":"a"},{"name":"b"}]`), many)
	require.ErrorContains(t, err, "/1: there are more than 7 values")
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	got, err := foreign.Decode[thing](strings.NewReader(`{"name":"a","lists":{"x":[1,2]},"parts":null} `), small())
	require.NoError(t, err)
	require.Equal(t, thing{Name: "a", Lists: map[string][]int64{"x": {1, 2}}}, got)
	for text, want := range map[string]string{
		``:                                 "it is empty, want JSON",
		`null`:                             "it is null, want a value",
		`{}{}`:                             "more follows after the value",
		`{"name":"a"`:                      "unexpected EOF",
		`{"parts":{},"parts":null}`:        `duplicate object member name "parts"`,
		`{"more":[null]}`:                  "/more/0: it is null, want a value",
		`{"x":1e400}`:                      "/x: number 1e400 does not fit into 64 bits",
		`{"x":9223372036854775808}`:        "/x: number 9223372036854775808 does not fit",
		`{"lists":{"x":[null]}}`:           "/lists/x/0: it is null, want a value",
		`[]`:                               "cannot unmarshal array",
		rep(`{"parts":{"a":`, 4):           "/parts/a/parts/a/parts: it is more than 5 levels deep",
		`{"lists":{"x":[` + rep("1,", 50):  "/lists/x/35: there are more than 40 values",
		`{"name":"` + rep("a", 250) + `"}`: "it is larger than the limit of 200 bytes",
		`{"labels":{"a":"` + rep("\\u", 3): "invalid escape",
	} {
		got, err := foreign.Decode[thing](strings.NewReader(text), small())
		require.ErrorIs(t, err, foreign.ErrInvalid, text)
		require.ErrorContains(t, err, want, text)
		require.Zero(t, got)
	}
}

func TestErrorsOfTheReaderStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	for _, text := range []string{"", "[", `[{"name":`, "[{}]"} {
		_, err := collect(io.MultiReader(strings.NewReader(text), iotest.ErrReader(reset)), small())
		require.ErrorIs(t, err, reset)
		require.NotErrorIs(t, err, foreign.ErrInvalid)
		_, err = foreign.Decode[[]thing](io.MultiReader(strings.NewReader(text), iotest.ErrReader(reset)), small())
		require.Equal(t, reset, err)
	}
}

// endless is a list without end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	const text = `[{},{},`
	for i := range p {
		p[i] = text[min(e.read, 1+(e.read-1)%3)]
		e.read++
	}
	return len(p), nil
}

func TestAListIsReadNoFurtherThanItsLimit(t *testing.T) {
	t.Parallel()
	in := &endless{}
	limits := foreign.Limits{Bytes: 1 << 40, Elements: 1000, Element: 100, Values: 1 << 30, Depth: 10}
	names, err := collect(in, limits)
	require.ErrorContains(t, err, "/1000: the list has more than 1000 elements")
	require.Len(t, names, 1000)
	require.Less(t, in.read, 64<<10)
	for one, err := range foreign.List[thing](&endless{}, limits) { // a consumer that stops
		require.NoError(t, err)
		require.Empty(t, one)
		break
	}
}

func FuzzList(f *testing.F) {
	for _, text := range []string{"", "null", "[null]", `[{"name":"a","parts":{"b":{}}}]`,
		`[{"more":[{}]},{"labels":{"a":"b"}}]`, `[{"name":"a","name":null}]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		limits := small()
		var all []*thing
		for one, err := range foreign.List[*thing](strings.NewReader(string(text)), limits) {
			if err != nil {
				require.ErrorIs(t, err, foreign.ErrInvalid)
				return
			}
			require.NotNil(t, one)
			all = append(all, one)
			n++
		}
		require.LessOrEqual(t, n, limits.Elements)
		var same []*thing
		twice, err := kjson.UnmarshalStrict(text, &same, kjson.DisallowDuplicateFields)
		require.NoError(t, err)
		require.Empty(t, twice)
		require.ElementsMatch(t, same, all)
	})
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "null", "{}", `{"name":"a","parts":{"b":{}}}`,
		`{"more":[{}],"labels":{"a":"b"},"lists":{"x":[1]}}`, `{"name":"a","name":null}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		one, err := foreign.Decode[*thing](strings.NewReader(string(text)), small())
		if err != nil {
			require.ErrorIs(t, err, foreign.ErrInvalid)
			return
		}
		require.NotNil(t, one)
		for _, more := range one.More {
			require.NotNil(t, more)
		}
		asTheAPIServer(t, text, one)
	})
}

// asTheAPIServer fails unless the decoder of the API server reads the same from a document, in all of its ways.
func asTheAPIServer(t *testing.T, document []byte, one *thing) {
	t.Helper()
	var same thing
	twice, err := kjson.UnmarshalStrict(document, &same, kjson.DisallowDuplicateFields)
	require.NoError(t, err)
	require.Empty(t, twice)
	require.Equal(t, same, *one)
	var object any
	twice, err = kjson.UnmarshalStrict(document, &object, kjson.DisallowDuplicateFields)
	require.NoError(t, err)
	require.Empty(t, twice)
}

func rep(text string, n int) string { return strings.Repeat(text, n) }
