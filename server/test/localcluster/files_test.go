package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSweepRemovesOnlyFilesOfKilledLaunchers(t *testing.T) {
	t.Parallel()
	root := shortDir(t)
	alive, lock, err := newDir(root)
	require.NoError(t, err)
	defer lock.Close()
	killed, killedLock, err := newDir(root)
	require.NoError(t, err)
	require.NoError(t, killedLock.Close())
	starting := filepath.Join(root, "cleat-localcluster-1")
	halfRemoved := filepath.Join(root, "cleat-localcluster-2")
	other := filepath.Join(root, "other")
	for _, dir := range []string{starting, halfRemoved, other} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	old := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(halfRemoved, old, old))

	require.NoError(t, sweep(root))
	require.DirExists(t, alive.dir)
	require.DirExists(t, starting)
	require.DirExists(t, other)
	require.NoDirExists(t, killed.dir)
	require.NoDirExists(t, halfRemoved)
}

func TestNewDirRefusesPathTooLongForSocket(t *testing.T) {
	t.Parallel()
	root := filepath.Join(shortDir(t), strings.Repeat("x", 90))
	require.NoError(t, os.Mkdir(root, 0o755))
	_, _, err := newDir(root)
	require.ErrorContains(t, err, "set TMPDIR to a shorter directory")
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestReservedPortCanBeBoundByNumber(t *testing.T) {
	t.Parallel()
	port, release, err := reservePort()
	require.NoError(t, err)
	defer release()
	for range 2 { // as by a server that is restarted
		listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		require.NoError(t, err)
		require.NoError(t, listener.Close())
	}
}

func TestTailReturnsLastLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for _, test := range []struct {
		name, text string
		lines      int
		want       string
	}{
		{"empty", "", 2, ""},
		{"fewer", "a\n", 2, "a"},
		{"more", "a\nb\nc\n", 2, "b\nc"},
		{"no end of line", "a\nb", 1, "b"},
		{"longer than is read", strings.Repeat("x", 20<<10) + "\nend\n", 1, "end"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(test.text), 0o600), test.name)
		got, err := tail(path, test.lines)
		require.NoError(t, err, test.name)
		require.Equal(t, test.want, got, test.name)
	}
}
