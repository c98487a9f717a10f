package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsOfNarrowerTerminal(t *testing.T) {
	t.Parallel()
	require.Equal(t, 4, rows([]string{strings.Repeat("x", 100), "", "x"}, 50))
	require.Equal(t, 3, rows([]string{strings.Repeat("x", 50), "", "x"}, 50))
	require.Equal(t, "abc…", cut("abcdef", 4))
	require.Equal(t, "größe", cut("größe", 5))
}

func TestScreenKeepsTheLinesThatItIsGiven(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	lines := []string{"a", "b", "c", "d"}
	require.NoError(t, NewScreen(&out, func() (int, int) { return 80, 4 }).Draw(lines))
	require.Equal(t, "\ra\x1b[K\n\rb\x1b[K\n\r... and 2 more\x1b[K\n\x1b[J", out.String())
	require.Equal(t, []string{"a", "b", "c", "d"}, lines)
}
