package outcome

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutcomesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	all := []Item{
		{Resource: "configmaps", APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a", Outcome: Created,
			Unchecked: true},
		{Resource: "namespaces", Name: "shop", Outcome: Refused, Reason: "<not wanted>"},
	}
	var file bytes.Buffer
	w := NewWriter(&file)
	plan := &Plan{Waves: []Wave{{Resources: []Count{{"configmaps", 1}}}}}
	w.Plan(plan)
	for _, one := range all {
		w.Add(one)
	}
	w.Add(Item{Resource: "secrets", Items: 7, Outcome: LeftOut})
	summary, err := w.Close(map[string]int{"a.b/c": 3})
	require.NoError(t, err)
	require.Equal(t, 2, summary.Total())
	require.Equal(t, "dry run: items that would be created: 1, refused: 1; nothing was restored", Describe(summary))
	plain, err := gzip.NewReader(&file)
	require.NoError(t, err)
	text, err := io.ReadAll(plain)
	require.NoError(t, err)
	read := func(text string) ([]Item, Content, error) {
		var got []Item
		content, err := Read(strings.NewReader(text), func(o Item) error {
			got = append(got, o)
			return nil
		})
		return got, content, err
	}
	got, again, err := read(string(text))
	require.NoError(t, err)
	require.Equal(t, all, got[:2])
	require.Equal(t, LeftOut, got[2].Outcome)
	require.Equal(t, Content{plan, summary}, again)

	for end := range len(text) - 1 { // the last byte is a newline
		_, _, err := read(string(text[:end]))
		require.Error(t, err, "it ends after %q", text[:end])
	}
	_, _, err = read(string(text) + `{"name":"late"}`)
	require.ErrorContains(t, err, "comes after the summary")
}

// TestSpoolIsReadWhileItIsWritten reads what was added so far, again and again.
func TestSpoolIsReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	s, err := NewSpool(t.TempDir())
	require.NoError(t, err)
	defer s.Remove()
	count := func() (n int) {
		require.NoError(t, s.Items(func(Item) error { n++; return nil }))
		return n
	}
	require.Zero(t, count())
	for n := range 3000 {
		s.Add(Item{Resource: "configmaps", Name: strings.Repeat("x", n%100), Outcome: Created})
		if n%1000 == 0 {
			require.Equal(t, n+1, count())
		}
	}
	file, summary, err := s.Finish(nil)
	require.NoError(t, err)
	require.Equal(t, 3000, summary.Total())
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	_, err = Read(plain, func(Item) error { return nil })
	require.NoError(t, err)
}
