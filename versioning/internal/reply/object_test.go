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

func TestScanBothIsScanObjectOfEach(t *testing.T) {
	t.Parallel()
	objects := []string{
		`{"apiVersion":"v1","data":{"a":"\"}{\\","b":"é\n"},"kind":"ConfigMap","metadata":{"labels":{"x":"y"},"name":"a","namespace":"n"}}`,
		`{"apiVersion":"v1","data":{"a":"\"}{\\","b":"é\n"},"kind":"ConfigMap","metadata":{"labels":{"seen":"true","x":"y"},"name":"a","namespace":"n"}}`,
		`{"apiVersion":"v1","data":{"a":"\"}{\\","b":"é\n"},"kind":"ConfigMap","metadata":{"labels":{"x":"y"},"name":"b","namespace":"n"}}`,
		`{"apiVersion":"v1","data":{"a":"\"}{\\","b":"é\n"},"kind":"Secret","metadata":{"labels":{"x":"y"},"name":"a","namespace":"n"}}`,
		`{"apiVersion":"v1","data":{"a":"other"},"kind":"ConfigMap","metadata":{"name":"a"}}`,
		`{"metadata":{"name":"a","namespace":"n","uid":"u"},"kind":"ConfigMap","apiVersion":"v1","data":{"a":"b"}}`,
		`{"metadata":{"name":"a","namespace":"n","uid":"u"},"kind":"ConfigMap","apiVersion":"v2","data":{"a":"b"}}`,
		`{"metadata":{"name":"a","namespace":"m","uid":"u"},"kind":"Secret","apiVersion":"v2"}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"},"data":{"metadata":{"name":"c"}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap"}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":null}`, `{}`, ` {"kind" : "ConfigMap"} `,
	}
	for _, sent := range objects {
		for _, answered := range objects {
			want, err := reply.ScanObject([]byte(sent))
			require.NoError(t, err, sent)
			got, err := reply.ScanObject([]byte(answered))
			require.NoError(t, err, answered)
			bothWant, bothGot, err := reply.ScanBoth([]byte(sent), []byte(answered))
			require.NoError(t, err, "%s %s", sent, answered)
			require.Equal(t, want, bothWant, "%s %s", sent, answered)
			require.Equal(t, got, bothGot, "%s %s", sent, answered)
			for cut := range len(answered) - 2 {
				_, _, err := reply.ScanBoth([]byte(sent), []byte(answered[:cut]))
				require.Error(t, err, "what is cut short is noticed, also when it begins like what was sent: %s", answered[:cut])
			}
		}
	}
}

// FuzzScanBoth proves that no wrong JSON hides behind a beginning that is right.
func FuzzScanBoth(f *testing.F) {
	const sent = `{"apiVersion":"v1","data":{"a":"\"}{\\","b":[1,true,{"c":null}]},"kind":"ConfigMap","metadata":{"labels":{"x":"y"},"name":"a","namespace":"n"}}`
	f.Add(20, "")
	f.Add(len(sent)-30, `"name":"b"}}`)
	f.Add(25, `"}`+sent[30:])
	f.Fuzz(func(t *testing.T, keep int, then string) {
		answered := []byte(sent[:min(max(0, keep), len(sent))] + then)
		want, err := reply.ScanObject(answered)
		_, got, bothErr := reply.ScanBoth([]byte(sent), answered)
		require.Equal(t, err == nil, bothErr == nil, "%v, %v", err, bothErr)
		require.Equal(t, want, got)
	})
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
