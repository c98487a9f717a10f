package wholefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesAreWholeOrAsBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, Write(path, []byte("first"), 0o640))
	begun, err := Create(path)
	require.NoError(t, err)
	_, err = begun.WriteString("half")
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "first", string(content))
	begun.Abort()
	require.NoError(t, Write(path, []byte("second"), 0o644))
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "second", string(content))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left")

	require.Error(t, Write(filepath.Join(dir, "none", "file"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "taken"), 0o755))
	require.Error(t, Write(filepath.Join(dir, "taken"), nil, 0o600), "a directory is in its place")
	entries, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
