package directory

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

func TestIsReadOnly(t *testing.T) {
	t.Parallel()
	require.False(t, isReadOnly(t.TempDir()))
	require.False(t, isReadOnly(filepath.Join(t.TempDir(), "missing")))
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	last := map[string]bool{} // a later mount hides an earlier one
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		last[fields[1]] = slices.Contains(strings.Split(fields[3], ","), "ro")
	}
	for path, readOnly := range last {
		if _, err := os.Stat(path); err == nil && !strings.Contains(path, `\`) {
			require.Equal(t, readOnly, isReadOnly(path), path)
		}
	}
}
