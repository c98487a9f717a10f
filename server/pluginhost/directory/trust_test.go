package directory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/pluginhost/process"
)

func TestTrustIgnoresFoldersAboveTheDirectory(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	require.NoError(t, os.Chmod(above, 0o777))
	folder := filepath.Join(above, "folder")
	require.NoError(t, os.Mkdir(folder, 0o755))
	path := filepath.Join(folder, "plugin")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/true\n"), 0o755))
	b, err := process.OpenBinary(path)
	require.NoError(t, err)
	defer func() { _ = b.Close() }()
	for _, dir := range []string{folder, path} { // a single file takes the place of a directory
		_, err := (&Trust{dir: dir}).Check(b)
		require.NoError(t, err)
	}
	_, err = (&Trust{dir: above}).Check(b)
	require.ErrorContains(t, err, "others than its owner can change the folder "+above)
}
