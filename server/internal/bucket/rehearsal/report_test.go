package rehearsal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReportsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	report := &Report{Version: 1, Backup: "b", Summary: Summary{ID: "1", Result: Failed, Began: time.Unix(1, 0).UTC()},
		Namespaces: map[string]string{"shop": "rehearsal-1-1"}, Checks: []Check{{Pod: "p", Command: []string{"a"}}}}
	for range MaxListed + 5 {
		report.Missing.Add(Item{Resource: "pods", Namespace: "shop", Name: "p", Reason: "refused"})
	}
	require.Len(t, report.Missing.Items, MaxListed)
	require.Equal(t, MaxListed+5, report.Missing.Count)
	text, err := json.Marshal(report)
	require.NoError(t, err)
	again, err := Read(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, report, again)
	require.Equal(t, "pods/shop/p", again.Missing.Items[0].String())

	for _, wrong := range []string{"", "null", "{}", `{"version":2}`, `{"version":1} {}`, `{"version":1,"version":1}`} {
		_, err := Read(strings.NewReader(wrong))
		require.ErrorContains(t, err, "report of a rehearsal", wrong)
	}
}

func TestListsOfBackupsKeepTheNewest(t *testing.T) {
	t.Parallel()
	text := ""
	for i := range 15 {
		one := Summary{ID: string(rune('a' + i)), Result: Passed, Began: time.Unix(int64(i), 0).UTC()}
		text = one.AddTo(text)
		require.Equal(t, text, one.AddTo(text), "a repeated write changes nothing")
	}
	list := ParseList(text)
	require.Len(t, list, 10)
	require.Equal(t, "o", list[0].ID)
	require.Equal(t, "f", list[9].ID)
	require.Len(t, ParseList(Summary{ID: "x"}.AddTo("damaged")), 1)
}

// FuzzRead reads any report.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"version":1,"missing":{"count":1,"items":[{"name":"a"}]}}`))
	f.Add([]byte(`{"version":1,"checks":[{"command":["a"]}],"began":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		report, err := Read(bytes.NewReader(raw))
		if err == nil {
			require.Equal(t, 1, report.Version)
		}
	})
}

// FuzzParseList reads any annotation of a backup.
func FuzzParseList(f *testing.F) {
	f.Add(`[{"id":"a","began":"2026-01-01T00:00:00Z"}]`)
	f.Add(`[null]`)
	f.Fuzz(func(t *testing.T, text string) {
		require.NotEmpty(t, ParseList(Summary{ID: "x", Began: time.Unix(1, 0)}.AddTo(text)))
	})
}
