package queue

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cleat-dev/cleat/server/status/statustest"
)

// pseudoTerminal returns a terminal of the given size, and the other side of it.
func pseudoTerminal(t *testing.T, columns, lines uint16) (terminal, behind *os.File) {
	t.Helper()
	behind, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals: %v", err)
	}
	t.Cleanup(func() { _ = behind.Close() })
	fd := int(behind.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines}))
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return terminal, behind
}

func TestQueueFitsOnTerminal(t *testing.T) {
	t.Parallel()
	terminal, behind := pseudoTerminal(t, 60, 8)
	view, err := newQueueView(terminal, terminal, "table")
	require.NoError(t, err)
	for _, b := range statustest.Queue() {
		require.NoError(t, view.change(nil, b))
	}
	require.NoError(t, view.refresh(statustest.Noon()))
	require.NoError(t, view.end())
	require.NoError(t, terminal.Close())
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
