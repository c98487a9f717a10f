package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParsePriorities(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Priorities{
		"":                {},
		"a":               {High: []string{"a"}},
		"a,b.c":           {High: []string{"a", "b.c"}},
		"a, b ,-, c":      {High: []string{"a", "b"}, Low: []string{"c"}},
		"-,c":             {Low: []string{"c"}},
		"a,-":             {High: []string{"a"}},
		"customresources": {High: []string{"customresources"}},
	} {
		got, err := ParsePriorities(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, says := range map[string]string{"a,,b": "empty name", "a,-,b,-,c": "more than one",
		"a,b,a": "a is named twice", "a,-,a": "a is named twice"} {
		_, err := ParsePriorities(text)
		require.ErrorContains(t, err, says)
	}
	require.Equal(t, "customresourcedefinitions", DefaultPriorities().High[0])
}
