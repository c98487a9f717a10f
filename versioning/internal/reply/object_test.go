package reply_test

import (
	"bytes"
	"encoding/json"
	"fmt"
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

func TestScanObjectReportsInvalidInput(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                                "is empty",
		"garbage":                         "is not JSON: invalid character 'g'",
		`{"kind":"Pod"`:                   "is not JSON: unexpected end",
		`{"kind":"Pod"} x`:                "is not JSON: invalid character 'x'",
		"null":                            "is not a JSON object",
		`[{"kind":"Pod"}]`:                "is not a JSON object",
		`"Pod"`:                           "is not a JSON object",
		"5":                               "is not a JSON object",
		`{"kind":5}`:                      "kind is 5, want a string",
		`{"apiVersion":["v1"]}`:           `apiVersion is ["v1"], want a string`,
		`{"metadata":"a"}`:                "metadata is not a JSON object",
		`{"metadata":[]}`:                 "metadata is not a JSON object",
		`{"metadata":{"name":{}}}`:        "metadata.name is {}, want a string",
		`{"metadata":{"uid":7}}`:          "metadata.uid is 7, want a string",
		`{"metadata":{"namespace":true}}`: "metadata.namespace is true, want a string",
		`{"kind":[` + strings.Repeat("1,", 99) + `1]}`: "1,1,1...",
	} {
		_, err := reply.ScanObject([]byte(raw))
		require.ErrorContains(t, err, want, raw)
	}
}

func TestSameObjectAgreesWithScanObject(t *testing.T) {
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
		`{"apiVersion":"v1","kind":"ConfigMap"}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":null}`, `{}`,
		` {"kind" : "ConfigMap"} `,
	}
	sure := 0
	for _, sent := range objects {
		for _, answered := range objects {
			if reply.SameObject([]byte(sent), []byte(answered)) {
				sure++
				requireSame(t, []byte(sent), []byte(answered))
			}
			for cut := range len(answered) - 2 {
				require.False(t, reply.SameObject([]byte(sent), []byte(answered[:cut])),
					"what is cut short is noticed, also when it begins like what was sent: %s", answered[:cut])
			}
		}
	}
	require.Positive(t, sure)
}

// requireSame compares SameObject's result with the scan that decodes.
func requireSame(t *testing.T, sent, answered []byte) {
	t.Helper()
	want, err := reply.ScanObject(sent)
	require.NoError(t, err, "%s", sent)
	got, err := reply.ScanObject(answered)
	require.NoError(t, err, "%s", answered)
	want.UID, got.UID = "", ""
	require.Equal(t, want, got, "%s %s", sent, answered)
}

func TestSameObjectAcceptsCommonChanges(t *testing.T) {
	t.Parallel()
	const sent = ` {"apiVersion":"v1","data":{"a":"\"}{\\","b":[1,true,{"c":null}]},"kind":"ConfigMap","metadata":{"labels":{"x":"y"},"name":"a","namespace":"n"},"status":{ "a" : 1 } } `
	for name, test := range map[string]struct {
		old, then string
		want      bool
	}{
		"a label":                 {`{"x":"y"}`, `{"seen":"true","x":"y"}`, true},
		"no label":                {`"labels":{"x":"y"},`, ``, true},
		"a value of data":         {`[1,true,{"c":null}]`, `"é\n"`, true},
		"the status":              {`{ "a" : 1 }`, `null`, true},
		"longer at its end":       {`1 }`, `12 , "b" : {} }`, true},
		"another name":            {`"name":"a"`, `"name":"b"`, false},
		"another namespace":       {`"namespace":"n"`, `"namespace":"nn"`, false},
		"no namespace":            {`,"namespace":"n"`, ``, false},
		"a name that is nested":   {`"name":"a"`, `"labels":{"name":"a"}`, false},
		"a second name":           {`"name":"a"`, `"name":"a","name":"b"`, false},
		"another kind":            {`"ConfigMap"`, `"Secret"`, false},
		"another version":         {`"v1"`, `"v2"`, false},
		"no metadata":             {`{"labels":{"x":"y"},"name":"a","namespace":"n"}`, `null`, false},
		"one more member":         {`"status":`, `"kind":"Secret","status":`, false},
		"a member that is ended":  {`{ "a" : 1 }`, `{ "a" : 1 },"kind":"Secret"`, false},
		"an object that is ended": {`{ "a" : 1 }`, `{ "a" : 1 }}`, false},
		"no JSON in metadata":     {`"labels":{"x":"y"}`, `"labels":{"x":"y"`, false},
		"no JSON elsewhere":       {`[1,true`, `[1,true,`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answered := strings.Replace(sent, test.old, test.then, 1)
			require.NotEqual(t, sent, answered)
			require.Equal(t, test.want, reply.SameObject([]byte(sent), []byte(answered)), answered)
			if test.want {
				requireSame(t, []byte(sent), []byte(answered))
			}
		})
	}
}

// FuzzSameObject proves that SameObject accepts no invalid JSON and no other object between a valid beginning and end.
func FuzzSameObject(f *testing.F) {
	const sent = `{"apiVersion":"v1","data":{"a":"\"}{\\","b":[1,true,{"c":null}]},"kind":"ConfigMap","metadata":{"labels":{"x":"y"},"name":"a","namespace":"n"},"status":{}}`
	f.Add(20, "", 30)
	f.Add(len(sent)-40, `"name":"b"`, 20)
	f.Add(25, `"}`, len(sent)-30)
	f.Add(102, `"a":"b",`, len(sent)-102)
	f.Fuzz(func(t *testing.T, begin int, then string, end int) {
		begin = min(max(0, begin), len(sent))
		end = min(max(0, end), len(sent))
		answered := []byte(sent[:begin] + then + sent[len(sent)-end:])
		if reply.SameObject([]byte(sent), answered) {
			requireSame(t, []byte(sent), answered)
		}
	})
}

func TestGroupIsTakenFromAPIVersion(t *testing.T) {
	t.Parallel()
	for apiVersion, want := range map[string]string{"": "", "v1": "", "apps/v1": "apps", "a.b/v1beta1": "a.b"} {
		require.Equal(t, want, reply.Object{APIVersion: apiVersion}.Group())
	}
}

// FuzzScanObject compares the scan with encoding/json into maps, whose member names are exact.
func FuzzScanObject(f *testing.F) {
	for _, seed := range []string{
		`{"kind":5,"kind":"Pod","metadata":[],"metadata":{"name":5,"name":"a"}}`,
		"", "null", "{}", `{"kind":"Pod","metadata":{"name":"a"}}`, `{"metadata":{"name":"a"},"metadata":{}}`,
		`{"a":"\\\"","kind":"x"}`, "{\"kind\":\"\xff\"}", `{"metadata":null,"apiVersion":null}`,
		"{\"\xff\":1,\"kind\":\"\\ud800\"}",
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

// BenchmarkSameObject measures the check of the most common replies, and the scan that any reply may need.
func BenchmarkSameObject(b *testing.B) {
	for _, size := range []int{1 << 10, 500 << 10} {
		sent := []byte(`{"apiVersion":"v1","data":{"a":"` + strings.Repeat(`a \"quoted\" word\n`, size/19) +
			`"},"kind":"ConfigMap","metadata":{"labels":{"x":"y"},"name":"a","namespace":"n"}}`)
		answered := bytes.Replace(sent, []byte(`"labels":{`), []byte(`"labels":{"seen":"true",`), 1)
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !reply.SameObject(sent, answered) {
					b.Fatal("the label makes another object of it")
				}
			}
		})
		b.Run(fmt.Sprintf("%dKiB scanned", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := reply.ScanObject(answered); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
