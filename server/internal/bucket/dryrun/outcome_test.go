package dryrun

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
	all := []Outcome{
		{Resource: "configmaps", APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a", Outcome: Created,
			Unchecked: true},
		{Resource: "namespaces", Name: "shop", Outcome: Refused, Reason: "<not wanted>"},
	}
	var file bytes.Buffer
	w := NewOutcomeWriter(&file)
	for _, one := range all {
		w.Add(one)
	}
	summary, err := w.Close(map[string]int{"a.b/c": 3})
	require.NoError(t, err)
	require.Equal(t, 2, summary.Total())
	require.Equal(t, "dry run: items that would be created: 1, refused: 1; nothing was restored", Describe(summary))
	plain, err := gzip.NewReader(&file)
	require.NoError(t, err)
	text, err := io.ReadAll(plain)
	require.NoError(t, err)
	read := func(text string) ([]Outcome, Summary, error) {
		var got []Outcome
		summary, err := ReadOutcomes(strings.NewReader(text), func(o Outcome) error {
			got = append(got, o)
			return nil
		})
		return got, summary, err
	}
	got, again, err := read(string(text))
	require.NoError(t, err)
	require.Equal(t, all, got)
	require.Equal(t, summary, again)

	for end := range len(text) - 1 { // the last byte is a newline
		_, _, err := read(string(text[:end]))
		require.Error(t, err, "it ends after %q", text[:end])
	}
	_, _, err = read(string(text) + `{"name":"late"}`)
	require.ErrorContains(t, err, "comes after the summary")
}
