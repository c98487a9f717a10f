package outcome

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRead reads any outcomes of a dry run, of which each line is one.
func FuzzRead(f *testing.F) {
	f.Add("{}\n{\"summary\":{}}\n")
	f.Add("null\n")
	f.Add("[null]\n{\"summary\":null}")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		if _, err := Read(strings.NewReader(text), func(Item) error { n++; return nil }); err == nil {
			require.LessOrEqual(t, n, strings.Count(text, "\n"))
		}
	})
}
