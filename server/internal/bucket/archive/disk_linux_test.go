package archive

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenLeavesSpaceOnTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	large := file{path: "resources/pods/namespaces/shop/web.json", body: `{"a":"` + strings.Repeat("a", 8<<20) + `"}`}
	_, err := Open(t.Context(), bytes.NewReader(packFiles(t, large)), dir, Options{})
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, large.path)
	require.ErrorContains(t, err, "set --scratch-dir to a directory with more space")
}
