package runs

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLinesOfARun has the log of a server with lines of several runs, in both formats.
func TestLinesOfARun(t *testing.T) {
	t.Parallel()
	const text = `2026-03-04T12:00:00.000Z [INFO]  backups: backup started: backup=velero/a storageLocation=default
2026-03-04T12:00:00.000Z [INFO]  backups: backup started: backup=velero/ab storageLocation=default
2026-03-04T12:00:01.000+0100 [WARN]  two
lines: backup=velero/a
  error=
  | first
  | second

2026-03-04T12:00:02.000Z [INFO]  of another: backup=velero/b
  error=
  | third
2026-03-04T12:00:03.000Z [INFO]  restore: restore=velero/a
2026-03-04T12:00:04.000Z [INFO]  both: backup=velero/ab restore=velero/x backup=velero/a
{"@level":"info","@message":"in JSON","@module":"backups","backup":"velero/a"}
{"@level":"info","@message":"\"backup\":\"velero/a\"","backup":"velero/b"}
panic: not ours`
	filter := newLineFilter("backup", "velero/a")
	var got []string
	lines := bufio.NewReaderSize(strings.NewReader(text), 16<<10)
	for {
		line, err := readLine(lines)
		if err != nil {
			break
		}
		got = append(got, filter.add(line)...)
	}
	require.Equal(t, strings.Split(`2026-03-04T12:00:00.000Z [INFO]  backups: backup started: backup=velero/a storageLocation=default
2026-03-04T12:00:01.000+0100 [WARN]  two
lines: backup=velero/a
  error=
  | first
  | second

2026-03-04T12:00:04.000Z [INFO]  both: backup=velero/ab restore=velero/x backup=velero/a
{"@level":"info","@message":"in JSON","@module":"backups","backup":"velero/a"}`, "\n"), got)
}

func TestLongLinesAreCut(t *testing.T) {
	t.Parallel()
	lines := bufio.NewReaderSize(strings.NewReader(strings.Repeat("a", 100)+"\nb\r\n"), 16)
	for _, want := range []string{strings.Repeat("a", 16), "b"} {
		got, err := readLine(lines)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := readLine(lines)
	require.Error(t, err)
}
