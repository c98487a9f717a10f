package status

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
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

// TestSimulationTable has backups that start now, later, and never.
func TestSimulationTable(t *testing.T) {
	t.Parallel()
	table := SimulationTable(&Simulation{Rounds: []Round{
		{Starts: []string{"a"}, Waiting: []Waiter{{Name: "b", Message: "the limit\nis reached"}, {Name: "c", Message: "no"}},
			Ends: "a"},
		{Starts: []string{"b"}, Waiting: []Waiter{{Name: "c", Message: "never"}}, Ends: "b"},
		{After: "2h0m0s", Waiting: []Waiter{{Name: "c", Message: "never"}}},
	}, Stuck: []string{"c"}})
	require.Equal(t, [][]string{{"1", "a", "now", ""}, {"2", "b", "when a has ended", "the limit is reached"},
		{"-", "c", "never", "never"}}, table.Rows)
}
