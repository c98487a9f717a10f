package runlog

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

func TestLateLinesAreStoredOnceAndWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var server, stored bytes.Buffer
	waited := 0
	late := NewLate(Options{Tee: hclog.New(&hclog.LoggerOptions{Output: &server}), Now: func() time.Time { return now }},
		func() { waited++ }, "backup", "velero/b")
	add := func(lines io.ReadSeeker) error {
		_, err := io.Copy(&stored, lines)
		return err
	}
	require.NoError(t, late.Store(func(io.ReadSeeker) error { return errors.New("there is nothing to store") }))
	require.Zero(t, late.Due())

	late.Logger().Info("first")
	late.Logger().Info("second", "n", 2)
	late.Logger().Debug("below the level")
	require.Equal(t, 1, waited)
	require.Equal(t, now.Add(latePause), late.Due())
	var tried [][]byte
	fail := func(lines io.ReadSeeker) error {
		content, err := io.ReadAll(lines)
		tried = append(tried, content)
		now = now.Add(time.Second)
		return errors.Join(err, errors.New("the bucket is away"))
	}
	require.Error(t, late.Store(fail))
	require.Equal(t, now.Add(lateShare*time.Second), late.Due(), "what is slow is tried less often")
	late.Logger().Info("third")
	require.Error(t, late.Store(fail))
	require.Equal(t, tried[0], tried[1], "the same content, so that it can be found if it was stored nevertheless")
	require.NoError(t, late.Store(add))
	require.Zero(t, late.Due())
	late.Logger().Info("fourth")
	failed := errors.New("what is stored with them is not")
	require.ErrorIs(t, late.StoreAll(func(io.ReadSeeker) error { return failed }), failed)
	late.Logger().Info("fifth")
	require.NoError(t, late.StoreAll(add), "those that were not stored, and all others")
	require.NoError(t, late.StoreAll(add), "none")

	const first, later = `time="2026-01-02T03:04:05Z" level=info msg=`, `time="2026-01-02T03:04:06Z" level=info msg=`
	require.Equal(t, first+"first backup=velero/b\n"+first+"second backup=velero/b n=2\n"+later+"third backup=velero/b\n"+
		strings.Replace(later, ":06", ":07", 1)+"fourth backup=velero/b\n"+strings.Replace(later, ":06", ":07", 1)+
		"fifth backup=velero/b\n", unzipped(t, &stored))
	require.Contains(t, server.String(), "fourth: backup=velero/b")
}

func TestLateLinesAreBounded(t *testing.T) {
	t.Parallel()
	var stored bytes.Buffer
	late := NewLate(Options{Tee: hclog.New(&hclog.LoggerOptions{Output: io.Discard}), Now: time.Now}, func() {})
	long := strings.Repeat("x", maxLate/4)
	for range 7 {
		late.Logger().Info(long)
	}
	require.NoError(t, late.Store(func(lines io.ReadSeeker) error {
		_, err := io.Copy(&stored, lines)
		return err
	}))
	log := unzipped(t, &stored)
	require.Equal(t, 4, strings.Count(log, long))
	require.Contains(t, log,
		`msg="lines are left out here, because too many have come; they are in the server's log" lines=3`)
}

func unzipped(t *testing.T, compressed io.Reader) string {
	t.Helper()
	plain, err := gzip.NewReader(compressed)
	require.NoError(t, err)
	content, err := io.ReadAll(plain)
	require.NoError(t, err)
	return string(content)
}
