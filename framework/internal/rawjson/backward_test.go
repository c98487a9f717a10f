package rawjson_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/internal/rawjson"
)

type member struct {
	name     string
	from, to int
}

// members returns the members of raw as Object visits them.
func members(raw []byte) (seen []member, err error) {
	err = rawjson.Object(raw, func(name []byte, from, to int) bool {
		seen = append(seen, member{string(name), from, to})
		return true
	})
	return seen, err
}

// membersBackward returns the members of raw as Backward visits them.
func membersBackward(raw []byte) (seen []member) {
	rawjson.Backward(raw, func(name []byte, from, to int) bool {
		seen = append(seen, member{string(name), from, to})
		return true
	})
	return seen
}

func objects() []string {
	return []string{
		`{"a":"\\\"","b":[{"c":-1.5e3},[],"]"],"d":{"e":{}},"f":null,"g":true}`,
		" \n{ \"a\" : \"x\" , \"\\u0062\" : [ 1 , { \"c\" : \",:{\" } ] , \"\" : {} }\t",
		`{}`, ` { } `, `{"":""}`, `{"\\":"\\"}`, `{"a\"b:":1,"a":{"a":[]}}`,
		`{"long":"` + strings.Repeat(`a \"quoted\" word, and a back\\`, 3) + `","then":1}`,
	}
}

func TestBackwardVisitsTheSameMembers(t *testing.T) {
	t.Parallel()
	for _, raw := range objects() {
		want, err := members([]byte(raw))
		require.NoError(t, err, raw)
		slices.Reverse(want)
		require.Equal(t, want, membersBackward([]byte(raw)), raw)
	}
}

func TestAroundFindsTheMemberThatContainsAPart(t *testing.T) {
	t.Parallel()
	for _, raw := range objects() {
		all, err := members([]byte(raw))
		require.NoError(t, err, raw)
		for begin := range len(raw) + 1 {
			for end := begin; end <= len(raw); end++ {
				var want member
				for _, m := range all {
					if m.from <= begin && end <= m.to {
						want = m
					}
				}
				name, from, to := rawjson.Around([]byte(raw), begin, end)
				if got := (member{string(name), from, to}); got != want || (want == member{}) != (name == nil) {
					t.Fatalf("%s: around %d to %d is %v, want %v", raw, begin, end, got, want)
				}
			}
		}
	}
}

// FuzzBackward compares the functions that require valid JSON with the one that validates.
func FuzzBackward(f *testing.F) {
	for i, raw := range objects() {
		f.Add([]byte(raw), i, i+3)
	}
	f.Add([]byte(`{"a":1}}`), 2, 5)
	f.Add([]byte(`}":,"a":{[]`), 1, 9)
	f.Fuzz(func(t *testing.T, raw []byte, begin, end int) {
		seen := membersBackward(raw)
		rawjson.Around(raw, begin, end)
		want, err := members(raw)
		if err == nil {
			slices.Reverse(want)
			require.Equal(t, want, seen)
		}
		require.Equal(t, json.Valid(raw), rawjson.Valid(raw))
	})
}
