package pluginhost

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdentityChangesWithTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plugin")
	open := func() *binary {
		b, err := openBinary(path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	require.NoError(t, os.WriteFile(path, []byte("one"), 0o755))
	first := open()
	require.Equal(t, first.identity(), open().identity())

	require.NoError(t, os.WriteFile(path, []byte("another"), 0o755))
	now, err := first.now()
	require.NoError(t, err)
	require.NotEqual(t, first.identity(), now, "written into")
	second := open()
	require.Equal(t, now, second.identity())

	require.NoError(t, os.WriteFile(path+".new", []byte("another"), 0o755))
	require.NoError(t, os.Rename(path+".new", path))
	require.NotEqual(t, second.identity(), open().identity(), "replaced")

	_, err = openBinary(path + ".missing")
	require.ErrorIs(t, err, os.ErrNotExist)
}
