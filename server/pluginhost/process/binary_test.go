package process

import (
	"os"
	"path/filepath"
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
