package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesSayEachPhaseOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newDisplay(&out, "backup b")
	for _, s := range []state{{phase: "New"}, {phase: "InProgress", done: 1, total: 9}, {phase: "InProgress", done: 9, total: 9}, {phase: "Completed", ended: true}} {
		d.state(s)
	}
	d.note("the API server is away")
	d.end()
	require.Equal(t, "backup b: New\nbackup b: InProgress\nbackup b: Completed\nbackup b: the API server is away\n", out.String())
}

func TestABarIsDrawnAndCleared(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &bar{w: &out, what: "backup b"}
	b.state(state{phase: "InProgress"})
	b.state(state{phase: "InProgress", done: 5, total: 10})
	b.state(state{phase: "InProgress", done: 11, total: 10})
	b.note("still here")
	b.end()
	require.Contains(t, out.String(), "backup b: InProgress")
	require.True(t, strings.HasSuffix(out.String(), "backup b: still here\n"))
}
