package reply_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

func TestScanObjectFindsTheIdentity(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]reply.Object{
		`{}`:                          {},
		` { "kind" : "Pod" } ` + "\n": {Kind: "Pod"},
		`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"n","name":"a"}}`:                                        {APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "a"},
		`{"metadata":{"labels":{"name":"x","namespace":"y"},"name":"a"},"spec":{"kind":"Other","metadata":{"name":"b"}}}`: {Name: "a"},
		`{"spec":"\"}{\\","kind":"Pod","n":-1.5e3,"b":[{},[],"]"]}`:                                                       {Kind: "Pod"},
		`{"ki\u006ed":"\u0050od","metadata":null}`:                                                                        {Kind: "Pod"},
		`{"Kind":"Secret","KIND":"Secret"}`:                                                                               {},
		`{"kind":5,"metadata":5,"metadata":{"name":{},"name":"a"},"kind":"Pod"}`:                                          {Kind: "Pod", Name: "a"},
		`{"kind":"Secret","kind":"Pod"}`:                                                                                  {Kind: "Pod"},
		`{"metadata":{"name":"a","namespace":"n"},"metadata":{"name":"b"}}`:                                               {Name: "b"},
		`{"uid":"x","metadata":{"name":"a","uid":"u-1"}}`:                                                                 {Name: "a", UID: "u-1"},
		`{"kind":null,"metadata":{"namespace":null}}`:                                                                     {},
		`{"kind":"Под","metadata":{"name":"a\\"}}`:                                                                        {Kind: "Под", Name: `a\`},
	} {
		got, err := reply.ScanObject([]byte(raw))
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
}

func TestScanObjectSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                                "is empty",
		"garbage":                         "is no JSON: invalid character 'g'",
		`{"kind":"Pod"`:                   "is no JSON: unexpected end",
		`{"kind":"Pod"} x`:                "is no JSON: invalid character 'x'",
		"null":                            "is no JSON object",
		`[{"kind":"Pod"}]`:                "is no JSON object",
		`"Pod"`:                           "is no JSON object",
		"5":                               "is no JSON object",
		`{"kind":5}`:                      "kind is 5, want a string",
		`{"apiVersion":["v1"]}`:           `apiVersion is ["v1"], want a string`,
		`{"metadata":"a"}`:                "metadata is no JSON object",
		`{"metadata":[]}`:                 "metadata is no JSON object",
		`{"metadata":{"name":{}}}`:        "metadata.name is {}, want a string",
		`{"metadata":{"uid":7}}`:          "metadata.uid is 7, want a string",
		`{"metadata":{"namespace":true}}`: "metadata.namespace is true, want a string",
		`{"kind":[` + strings.Repeat("1,", 99) + `1]}`: "1,1,1...",
	} {
		_, err := reply.ScanObject([]byte(raw))
		require.ErrorContains(t, err, want, raw)
	}
}

func TestGroupIsThatOfTheAPIVersion(t *testing.T) {
	t.Parallel()
	for apiVersion, want := range map[string]string{"": "", "v1": "", "apps/v1": "apps", "a.b/v1beta1": "a.b"} {
		require.Equal(t, want, reply.Object{APIVersion: apiVersion}.Group())
	}
}

// FuzzScanObject holds the scan against encoding/json into maps, whose member names are exact.
func FuzzScanObject(f *testing.F) {
	for _, seed := range []string{
		`{"kind":5,"kind":"Pod","metadata":[],"metadata":{"name":5,"name":"a"}}`,
		"", "null", "{}", `{"kind":"Pod","metadata":{"name":"a"}}`, `{"metadata":{"name":"a"},"metadata":{}}`,
		`{"a":"\\\"","kind":"x"}`, "{\"kind\":\"\xff\"}", `{"metadata":null,"apiVersion":null}`, "{\"\xff\":1,\"kind\":\"\\ud800\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := reply.ScanObject(raw)
		want, ok := decode(raw)
		require.Equal(t, ok, err == nil, "%v", err)
		if ok {
			require.Equal(t, want, got)
		}
	})
}

func decode(raw []byte) (object reply.Object, ok bool) {
	var members, metadata map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return object, false
	}
	text := func(member json.RawMessage) (s string) {
		if member != nil && json.Unmarshal(member, &s) != nil {
			ok = false
		}
		return s
	}
	ok = true
	if members["metadata"] != nil && json.Unmarshal(members["metadata"], &metadata) != nil {
		return object, false
	}
	object = reply.Object{
		APIVersion: text(members["apiVersion"]), Kind: text(members["kind"]),
		Namespace: text(metadata["namespace"]), Name: text(metadata["name"]), UID: text(metadata["uid"]),
	}
	return object, ok
}
