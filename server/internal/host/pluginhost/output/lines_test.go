package output

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

func TestParseLogLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		line  string
		level hclog.Level
		want  string // message and arguments
	}{
		"plugin library of Velero": {
			`{"@level":"warn","@message":"no such volume","level":"warning","@logSourceSetBy":"plugin","logSource":"a/b.go:12","pv":"x"}`,
			hclog.Warn, `no such volume[@logSourceSetBy plugin logSource a/b.go:12 pv x]`,
		},
		"hclog": {
			`{"@level":"info","@message":"done","@timestamp":"2026-01-02T03:04:05.000000Z","n":3}`, hclog.Info, `done[n 3]`,
		},
		"plain logrus": {`{"level":"fatal","msg":"lost","time":"2026-01-02T03:04:05Z"}`, hclog.Error,
			`lost[]`},
		"numbers are kept exactly": {`{"@level":"info","@message":"m","n":12345678901234567890}`, hclog.Info,
			`m[n 12345678901234567890]`},
		"message that is not a string": {`{"@level":"info","@message":7}`, hclog.Debug, `{"@level":"info","@message":7}[]`},
		"level that is not a string":   {`{"@level":[],"@message":"m"}`, hclog.Debug, `{"@level":[],"@message":"m"}[]`},
		"an unknown level": {`{"@level":"loud","@message":"m"}`, hclog.Debug,
			`{"@level":"loud","@message":"m"}[]`},
		"more than an object": {`{"@level":"info","@message":"m"} {}`, hclog.Debug,
			`{"@level":"info","@message":"m"} {}[]`},
		"half an object":    {`{"@level":"info"`, hclog.Debug, `{"@level":"info"[]`},
		"text":              {`hello`, hclog.Debug, `hello[]`},
		"text with a level": {`[WARN] careful`, hclog.Warn, `[WARN] careful[]`},
		"text in brackets":  {`[boot] careful`, hclog.Debug, `[boot] careful[]`},
		"crash":             {`panic: boom`, hclog.Error, `panic: boom[]`},
		"signal":            {`SIGSEGV: segmentation violation`, hclog.Error, `SIGSEGV: segmentation violation[]`},
		"invalid UTF-8":     {"\xff\xfe", hclog.Debug, "\uFFFD[]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parseLogLine([]byte(test.line))
			require.Equal(t, test.level, got.Level)
			require.Equal(t, test.want, got.Message+fmt.Sprint(got.Args))
		})
	}
}

func FuzzParseLogLine(f *testing.F) {
	f.Add([]byte(`{"@level":"info","@message":"m","a":{"b":[1,null]}}`))
	f.Add([]byte(`{"@message":7}`))
	f.Add([]byte("[ERROR] x"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) == 0 {
			return // eachLine skips empty lines
		}
		parsed := parseLogLine(line)
		require.NotEqual(t, hclog.NoLevel, parsed.Level)
		require.Zero(t, len(parsed.Args)%2)
	})
}

func TestEachLineTruncatesLongLinesAndCountsBytes(t *testing.T) {
	t.Parallel()
	input := "first\r\n\n" + strings.Repeat("x", 3*maxLine) + "\n" + strings.Repeat("y", maxLine) + "\nlast"
	var got []string
	var handled atomic.Int64
	EachLine(strings.NewReader(input), &handled, func(line []byte, _ bool) { got = append(got, string(line)) })
	require.Equal(t, []string{"first", strings.Repeat("x", maxLine) + fmt.Sprintf("... (%d more bytes)", 2*maxLine),
		strings.Repeat("y", maxLine), "last"}, got)
	require.EqualValues(t, len(input), handled.Load())
}

func TestLineWriterSplitsWritesIntoLines(t *testing.T) {
	t.Parallel()
	var got []string
	w := &LineWriter{Handle: func(line []byte) { got = append(got, string(line)) }}
	for _, part := range []string{"a", "b\r\nc\n\n", "d", strings.Repeat("x", maxLine), "\ne\n"} {
		n, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Equal(t, []string{"ab", "c", "d" + strings.Repeat("x", maxLine), "e"}, got)
}

func TestTailKeepsLastLinesOrStartOfCrash(t *testing.T) {
	t.Parallel()
	var calm tail
	for i := range 2 * tailLines {
		calm.add(fmt.Appendf(nil, "line %d", i))
		calm.add([]byte(`{"@level":"debug","@message":"chatter"}`))
	}
	calm.add(bytes.Repeat([]byte("y"), 2*tailWidth))
	last := calm.last()
	require.Len(t, last, tailLines)
	require.Equal(t, "line 39", last[tailLines-2])
	require.Equal(t, strings.Repeat("y", tailWidth)+"...", last[tailLines-1])

	var crash tail
	crash.add([]byte("before"))
	crash.add([]byte("panic: boom"))
	for range 2 * tailLines {
		require.Equal(t, hclog.Error, crash.add([]byte("goroutine 1 [running]:")).Level)
	}
	require.Len(t, crash.last(), tailLines)
	require.Equal(t, "panic: boom", crash.last()[0])
}
