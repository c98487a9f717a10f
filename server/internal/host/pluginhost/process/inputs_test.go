package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInputsHaveAVersionPerContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	named, configured := write("named", "1"), write("configured", "1")
	for volume, content := range map[string]string{"first": "1", "second": "22"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, volume), 0o700))
		write(filepath.Join(volume, "cloud"), content)
	}
	require.NoError(t, os.Symlink("first", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/cloud", filepath.Join(dir, "mounted")))

	inputs := NewInputs([]string{"A=" + named, "B=" + dir, "C=" + filepath.Join(dir, "none"), "D=" +
		filepath.Join(dir, "mounted"), "E", "F=relative"})
	inputs.Add(map[string]string{"credentialsFile": configured, "bucket": "b"})
	version := func() int64 { inputs.lookAgain(); inputs.lookAgain(); return inputs.Version() }
	require.EqualValues(t, 0, version())

	write("named", "is being")
	require.False(t, inputs.lookAgain())
	write("named", "is being written")
	require.False(t, inputs.lookAgain(), "it is still being written")
	require.True(t, inputs.lookAgain())
	require.EqualValues(t, 1, version())
	write("configured", "22")
	require.EqualValues(t, 2, version())
	require.NoError(t, os.Symlink("second", filepath.Join(dir, "next")))
	require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "..data")))
	require.EqualValues(t, 3, version(), "as the kubelet does")
	require.NoError(t, os.Remove(named))
	require.EqualValues(t, 4, version())
	require.EqualValues(t, 4, version())
	require.EqualValues(t, 0, (*Inputs)(nil).Version())
}
