package directory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsMountPoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("/proc", link))
	require.True(t, isMountPoint("/proc"))
	require.True(t, isMountPoint(link))
	require.False(t, isMountPoint(dir))
	require.False(t, isMountPoint(filepath.Join(dir, "missing")))
}
