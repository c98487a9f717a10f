package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesPrintEachPhaseOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := NewProgress(&out, "backup b")
	for _, s := range []State{{Phase: "New"}, {Phase: "InProgress", Done: 1, Total: 9},
		{Phase: "InProgress", Done: 9, Total: 9}, {Phase: "Completed"}} {
		d.State(s)
	}
	d.Note("the API server is away")
	d.End()
	require.Equal(t, "backup b: New\nbackup b: InProgress\nbackup b: Completed\nbackup b: the API server is away\n",
		out.String())
}

func TestBarIsDrawnAndCleared(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &Bar{w: &out, what: "backup b"}
	b.State(State{Phase: "InProgress"})
	b.State(State{Phase: "InProgress", Done: 5, Total: 10})
	b.State(State{Phase: "InProgress", Done: 11, Total: 10})
	b.State(State{Phase: "Waiting", What: "operations", Detail: "1.0 MiB of 2.0 MiB", Done: 1, Total: 2})
	require.Contains(t, out.String(), "backup b: Waiting, 1.0 MiB of 2.0 MiB")
	require.Contains(t, out.String(), "/2)", "another bar for other things")
	b.Note("still here")
	b.End()
	require.Contains(t, out.String(), "backup b: InProgress")
	require.True(t, strings.HasSuffix(out.String(), "backup b: still here\n"))
}
