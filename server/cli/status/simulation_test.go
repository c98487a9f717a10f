package status

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/status/layout"
)

func TestRoundOfManyIsShort(t *testing.T) {
	t.Parallel()
	r := Round{Round: 1, After: "1h0m0s"}
	for i := range 100 {
		r.Waiting = append(r.Waiting, Waiter{Position: i + 1, Name: "b", Message: "not now\x1b[2J"})
	}
	var out strings.Builder
	r.Print(layout.NewDescription(&out))
	require.True(t, strings.HasPrefix(out.String(), "\nRound 1, 1h0m0s later: nothing runs\n"), out.String())
	require.True(t, strings.HasSuffix(out.String(), "\n  ... and 80 more, see -o json\n"), out.String())
	require.NotContains(t, out.String(), "\x1b")
}
