package queue

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
)

// screenText returns what a terminal shows after the output of a screen.
func screenText(t *testing.T, out string) string {
	t.Helper()
	var lines []string
	at := 0
	for out != "" {
		switch {
		case strings.HasPrefix(out, "\x1b["):
			end := strings.IndexAny(out, "AKJ")
			n := 0
			for _, digit := range out[2:end] {
				n = n*10 + int(digit-'0')
			}
			switch out[end] {
			case 'A':
				at -= n
				require.GreaterOrEqual(t, at, 0)
			case 'J':
				lines = lines[:min(at, len(lines))]
			}
			out = out[end+1:]
		case out[0] == '\r':
			lines = append(lines, make([]string, max(0, at+1-len(lines)))...)
			lines[at] = ""
			out = out[1:]
		case out[0] == '\n':
			at++
			out = out[1:]
		default:
			end := strings.IndexAny(out, "\r\n\x1b")
			lines[at] += out[:end]
			out = out[end:]
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestScreenIsDrawnInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	width, height := 100, 12
	s := &screen{screen: command.NewScreen(&out, func() (int, int) { return width, height }),
		backups: map[string]*velerov1.Backup{}}
	for _, b := range statustest.Queue() {
		require.NoError(t, s.change(nil, b))
	}
	require.NoError(t, s.refresh(statustest.Noon()))
	statustest.Golden(t, "queue_screen.txt", func(w io.Writer) error {
		_, err := io.WriteString(w, screenText(t, out.String()))
		return err
	})
	drawn := out.Len()
	require.NoError(t, s.refresh(statustest.Noon().Add(500*time.Millisecond)))
	require.Equal(t, drawn, out.Len(), "nothing has changed")
	require.NoError(t, s.refresh(statustest.Noon().Add(time.Second)))
	require.Greater(t, out.Len(), drawn, "the times have")

	s.server(status.QueueServer{Limit: 3, Policy: statustest.Policy("")})
	require.NoError(t, s.refresh(statustest.Noon().Add(time.Second)))
	require.Contains(t, screenText(t, out.String()),
		"waiting\n2 of 3 slots in use; policy example.io/policy decides\nPOSITION")

	height = 6
	s.note("the API server\nis away")
	require.NoError(t, s.refresh(statustest.Noon().Add(2*time.Second)))
	text := screenText(t, out.String())
	require.True(t, strings.HasPrefix(text, "1 running, 1 about to start, 6 waiting; the API server is away\n"), text)
	require.Contains(t, text, "\n... and 7 more\n")
	require.Len(t, strings.Split(strings.TrimRight(text, "\n"), "\n"), 5)

	for _, b := range statustest.Queue() {
		require.NoError(t, s.change(b, nil))
	}
	require.NoError(t, s.end())
	require.Equal(t, "0 running, 0 about to start, 0 waiting\n0 of 3 slots in use; policy example.io/policy decides\n",
		screenText(t, out.String()))
	for line := range strings.Lines(screenText(t, out.String())) {
		require.LessOrEqual(t, len([]rune(line)), width+1)
	}
}
