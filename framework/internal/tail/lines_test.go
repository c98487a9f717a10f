package tail_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/internal/tail"
)

func TestLinesAreTheLast(t *testing.T) {
	t.Parallel()
	twenty := strings.TrimSuffix(strings.Repeat("line\n", 20), "\n")
	for name, test := range map[string]struct{ text, want string }{
		"nothing":               {"", ""},
		"line breaks only":      {"\n\r\n\n", ""},
		"one":                   {"disk full\n", "disk full"},
		"of Windows":            {"a\r\nb\r\n", "a\nb"},
		"inner empty lines":     {"a\n\nb", "a\n\nb"},
		"twenty":                {twenty + "\n", twenty},
		"more":                  {"first\n" + twenty, "...\n" + twenty},
		"more, the first empty": {"\n" + twenty, "...\n" + twenty},
		"too long":              {strings.Repeat("x", 3000), "..." + strings.Repeat("x", 2048)},
		"inside a letter":       {"a" + strings.Repeat("é", 2000) + "b", "..." + strings.Repeat("é", 1023) + "b"},
		"very long":             {strings.Repeat("é\n", 1<<20), "..." + strings.Repeat("\né", 20)},
		"invalid":               {"a\xffb", "a\uFFFDb"},
		"invalid, very long":    {strings.Repeat("\xff", 1<<20), "..." + strings.Repeat("\uFFFD", 1)},
	} {
		got := tail.Lines(test.text)
		require.Equal(t, test.want, got, name)
		require.Equal(t, got, tail.Lines(got), name+": again")
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb\r\n", 1)
	f.Add("...\nx", 2000)
	f.Fuzz(func(t *testing.T, part string, times int) {
		got := tail.Lines(strings.Repeat(part, max(0, min(times, 5000))))
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), tail.MaxBytes+len("..."))
		require.LessOrEqual(t, strings.Count(got, "\n"), tail.MaxLines)
		require.Equal(t, got, tail.Lines(got))
	})
}
