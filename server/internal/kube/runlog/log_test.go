package runlog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
)

// clock returns the same time whenever it is called.
func clock() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("CET", 3600)) }

// text ends the log and returns its lines.
func text(t *testing.T, l *runlog.Log) string {
	t.Helper()
	r, err := l.Reader()
	require.NoError(t, err)
	gz, err := gzip.NewReader(r)
	require.NoError(t, err)
	out, err := io.ReadAll(gz)
	require.NoError(t, err)
	return string(out)
}

func newLog(t *testing.T, opts runlog.Options, fields ...any) *runlog.Log {
	t.Helper()
	opts.Dir, opts.Now = t.TempDir(), clock
	if opts.Tee == nil {
		opts.Tee = hclog.New(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Info})
	}
	l, err := runlog.New(opts, fields...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func TestLogWritesLogrusText(t *testing.T) {
	t.Parallel()
	l := newLog(t, runlog.Options{}, "backup", "velero/nightly")
	log := l.Logger()
	log.Info("backed up items", "count", 3)
	log.Warn("say \"hi\"\n", "error", errors.New("boom: x"), "plugin", "example.io/first")
	log.With("item", "pods/a").Named("engine").Error("bad", "level", "x", "a key", "v", "odd")
	log.Debug("below the server's level")

	require.Equal(t, strings.Join([]string{
		`time="2026-01-02T02:04:05Z" level=info msg="backed up items" backup=velero/nightly count=3`,
		`time="2026-01-02T02:04:05Z" level=warning msg="say \"hi\"\n" backup=velero/nightly error="boom: x" plugin=example.io/first`,
		`time="2026-01-02T02:04:05Z" level=error msg=bad a_key=v backup=velero/nightly extra=odd fields.level=x item=pods/a logger=engine`,
		"",
	}, "\n"), text(t, l))
}

func TestLogWritesJSON(t *testing.T) {
	t.Parallel()
	l := newLog(t, runlog.Options{JSON: true}, "restore", "velero/r")
	l.Logger().Error("bad", "error", errors.New("boom"))
	require.JSONEq(t,
		`{"time":"2026-01-02T02:04:05Z","level":"error","msg":"bad","restore":"velero/r","error.message":"boom"}`,
		text(t, l))
}

func TestServerLogGetsEveryLine(t *testing.T) {
	t.Parallel()
	var server bytes.Buffer
	tee := hclog.New(&hclog.LoggerOptions{Output: &server, Level: hclog.Debug, DisableTime: true})
	l := newLog(t, runlog.Options{Tee: tee}, "backup", "velero/b")
	log := l.Logger()
	log.Debug("one")
	require.Contains(t, text(t, l), "msg=one")
	log.Info("after the end")

	require.Equal(t, "[DEBUG] one: backup=velero/b\n[INFO]  after the end: backup=velero/b\n", server.String())
	require.NotContains(t, text(t, l), "after the end", "the log has ended")
}

func TestConcurrentLinesDoNotMix(t *testing.T) {
	t.Parallel()
	l := newLog(t, runlog.Options{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 50 {
				l.Logger().Info("0123456789")
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(text(t, l)), "\n")
	require.Len(t, lines, 1000)
	for _, got := range lines {
		require.Equal(t, `time="2026-01-02T02:04:05Z" level=info msg=0123456789`, got)
	}
}

func TestStandardLogger(t *testing.T) {
	t.Parallel()
	l := newLog(t, runlog.Options{})
	l.Logger().StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Error}).Print("from a library")
	require.Contains(t, text(t, l), `level=error msg="from a library"`)
}

func TestCloseRemovesFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := runlog.New(runlog.Options{Dir: dir, Tee: hclog.NewNullLogger(), Now: clock})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	l.Logger().Info("after the end")
}

func TestNewNamesMissingDirectory(t *testing.T) {
	t.Parallel()
	_, err := runlog.New(runlog.Options{Dir: filepath.Join(t.TempDir(), "missing"), Tee: hclog.NewNullLogger(),
		Now: clock})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "missing")
}
