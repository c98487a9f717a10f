package results_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

func TestEncodeWritesVelerosFormat(t *testing.T) {
	t.Parallel()
	var r results.Results
	r.Errors.AddVelero("no space <left>")
	r.Errors.Add("", "cluster thing")
	r.Warnings.Add("ns-1", "a")
	r.Warnings.Add("ns-1", "b")

	var buf bytes.Buffer
	require.NoError(t, r.Encode(&buf))
	require.Equal(t,
		`{"errors":{"velero":["no space \u003cleft\u003e"],"cluster":["cluster thing"]},"warnings":{"namespaces":{"ns-1":["a","b"]}}}`+"\n",
		buf.String())

	var back results.Results
	require.NoError(t, json.Unmarshal(buf.Bytes(), &back))
	require.Equal(t, r, back)
	require.Equal(t, 2, back.Errors.Count())
	require.Equal(t, 2, back.Warnings.Count())
}

func TestEncodeWritesBothKeysOfEmptyResults(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	require.NoError(t, results.Results{}.Encode(&buf))
	require.Equal(t, `{"errors":{},"warnings":{}}`+"\n", buf.String())
}

func TestMessageOmitsEmptyParts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		message results.Message
		want    string
	}{
		"all": {results.Message{Resource: "pods", Name: "web", Text: "back up item", Err: errors.New("boom")},
			" resource: /pods name: /web message: /back up item error: /boom"},
		"no name": {results.Message{Resource: "pods", Text: "list"}, " resource: /pods message: /list"},
		"error":   {results.Message{Err: errors.New("boom")}, " error: /boom"},
		"nothing": {results.Message{}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.message.String())
		})
	}
}

func TestCollectorIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var c results.Collector
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			c.Error("ns-"+strconv.Itoa(i%3), "e")
			c.Warning("", "w")
			c.RunError("oe")
			c.RunWarning("ow")
			c.Merge(results.Results{Errors: results.Result{Cluster: []string{"m"}}})
			_ = c.Results()
		})
	}
	wg.Wait()
	got := c.Results()
	require.Equal(t, 150, got.Errors.Count())
	require.Equal(t, 100, got.Warnings.Count())

	c.Error("ns-0", "later")
	require.Equal(t, 150, got.Errors.Count(), "a copy must not change")
}
