package queue

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/test/terminal"
)

func TestQueueFitsOnTerminal(t *testing.T) {
	t.Parallel()
	tty, behind := terminal.Open(t, 60, 8)
	view, err := newQueueView(tty, tty, "table")
	require.NoError(t, err)
	for _, b := range statustest.Queue() {
		require.NoError(t, view.change(nil, b))
	}
	require.NoError(t, view.refresh(statustest.Noon()))
	require.NoError(t, view.end())
	require.NoError(t, tty.Close())
	shown, _ := io.ReadAll(behind) // ends with an error because the terminal is closed

	text := screenText(t, strings.ReplaceAll(string(shown), "\r\n", "\n"))
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	require.Len(t, lines, 7)
	require.Equal(t, "1 running, 1 about to start, 6 waiting", lines[0])
	require.Equal(t, "... and 4 more", lines[6])
	for _, line := range lines {
		require.LessOrEqual(t, len([]rune(line)), 60, line)
	}
	require.Contains(t, string(shown), "\x1b[7A", "it is drawn over the first time")
}
