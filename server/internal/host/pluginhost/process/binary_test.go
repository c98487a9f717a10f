package process

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdentityChangesWithFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plugin")
	open := func() *Binary {
		b, err := OpenBinary(path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	require.NoError(t, os.WriteFile(path, []byte("one"), 0o755))
	first := open()
	require.Equal(t, first.Identity(), open().Identity())

	require.NoError(t, os.WriteFile(path, []byte("another"), 0o755))
	now, err := first.Now()
	require.NoError(t, err)
	require.NotEqual(t, first.Identity(), now, "written into")
	second := open()
	require.Equal(t, now, second.Identity())

	require.NoError(t, os.WriteFile(path+".new", []byte("another"), 0o755))
	require.NoError(t, os.Rename(path+".new", path))
	require.NotEqual(t, second.Identity(), open().Identity(), "replaced")

	_, err = OpenBinary(path + ".missing")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSealedCopy(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has files in memory that cannot be changed")
	}
	path := filepath.Join(t.TempDir(), "plugin")
	require.NoError(t, os.WriteFile(path, []byte("what was checked"), 0o755))
	b, err := OpenBinary(path)
	require.NoError(t, err)
	defer func() { _ = b.Close() }()
	sum, err := b.Sum()
	require.NoError(t, err)
	first, err := b.Seal(sum)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("something else"), 0o755))
	second, err := b.Seal(sum)
	require.NoError(t, err)
	require.Same(t, first, second, "processes share it")

	_, err = second.File.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorIs(t, second.File.Truncate(1), os.ErrPermission)
	require.ErrorIs(t, second.File.Truncate(1<<20), os.ErrPermission)
	require.NoError(t, first.Close())
	content := make([]byte, 100)
	n, err := second.File.ReadAt(content, 0)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "what was checked", string(content[:n]))
	got, err := second.Sum()
	require.NoError(t, err)
	require.Equal(t, sum, got)

	require.NoError(t, second.Close())
	_, err = second.File.Stat()
	require.ErrorIs(t, err, os.ErrClosed, "nobody uses it")
	_, err = b.Seal(sum)
	require.ErrorAs(t, err, new(*DistrustError))
	require.ErrorContains(t, err, "it was changed while it was checked")
}
