package spool

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileIsReadWhileItIsWrittenAndLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := New(dir, "a list")
	require.NoError(t, err)
	_, err = io.WriteString(f, "one ")
	require.NoError(t, err)
	part := make([]byte, 3)
	_, err = f.ReadAt(part, 0)
	require.NoError(t, err)
	require.Equal(t, "one", string(part))
	_, err = io.WriteString(f, "two")
	require.NoError(t, err)
	require.EqualValues(t, 7, f.Size())
	info, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 7, info.Size())
	_, err = f.Seek(0, io.SeekStart)
	require.NoError(t, err)
	all, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "one two", string(all))
	require.NoError(t, f.Close())
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = f.ReadAt(part, 0)
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorContains(t, err, "a list")
}

func TestFileOfAFullDisk(t *testing.T) {
	t.Parallel()
	f, err := New(t.TempDir(), "a list")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	f.space.ask = func() (int64, bool) { return 1000, true }
	for written := 0; err == nil; written++ {
		require.LessOrEqual(t, written, 1000)
		_, err = f.Write([]byte{0})
		f.space.ask = func() (int64, bool) { return 1000 - f.Size(), true }
	}
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "write a list")
	require.ErrorContains(t, err, "and 250 are to stay free; set --scratch-dir to a directory with more space")
	_, err = New(filepath.Join(t.TempDir(), "missing"), "a list")
	require.ErrorContains(t, err, "make a temporary file for a list, see --scratch-dir: ")
}

func TestCopy(t *testing.T) {
	t.Parallel()
	f, err := Copy("", "a text", strings.NewReader("text"))
	require.NoError(t, err)
	all, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "text", string(all))
	require.NoError(t, f.Close())
	failed := errors.New("it is gone")
	_, err = Copy("", "a text", io.MultiReader(strings.NewReader("text"), reader{failed}))
	require.ErrorIs(t, err, failed)
}

type reader struct{ err error }

func (r reader) Read([]byte) (int, error) { return 0, r.err }
