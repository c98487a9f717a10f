package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// TestScratchOfKilledServerIsRemoved kills a process that holds a directory of temporary files.
func TestScratchOfKilledServerIsRemoved(t *testing.T) {
	if base := os.Getenv("HOLD_SCRATCH"); base != "" {
		held, err := newScratch(base, hclog.NewNullLogger())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(held.dir, "runlog-1.gz"), []byte("x"), 0o600))
		_, _ = os.Stdout.WriteString("held\n")
		select {}
	}
	t.Parallel()
	base := filepath.Join(t.TempDir(), "scratch")
	other := filepath.Join(base, "of-somebody-else")
	require.NoError(t, os.MkdirAll(other, 0o750))
	self, err := os.Executable()
	require.NoError(t, err)
	former := exec.CommandContext(t.Context(), self, "-test.run", "^TestScratchOfKilledServerIsRemoved$")
	former.Env = append(os.Environ(), "HOLD_SCRATCH="+base)
	out, err := former.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, former.Start())
	_, err = out.Read(make([]byte, 5))
	require.NoError(t, err)
	found := func() []string {
		files, err := filepath.Glob(filepath.Join(base, "*", "*"))
		require.NoError(t, err)
		return files
	}
	require.Len(t, found(), 1)

	beside, err := newScratch(base, hclog.NewNullLogger())
	require.NoError(t, err)
	require.Len(t, found(), 1, "the other server is alive")
	require.NoError(t, former.Process.Kill())
	_ = former.Wait()
	after, err := newScratch(base, hclog.NewNullLogger())
	require.NoError(t, err)
	require.Empty(t, found())
	require.DirExists(t, beside.dir)
	require.NoError(t, beside.remove())
	require.NoError(t, after.remove())
	left, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.DirExists(t, other)
}
