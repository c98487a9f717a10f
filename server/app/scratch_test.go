package app

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestSocketsFitTheirPaths listens at the longest path in the directory of sockets, for bases up to the longest one that
// a socket can be in.
func TestSocketsFitTheirPaths(t *testing.T) {
	t.Parallel()
	root, err := os.MkdirTemp("", "s") //nolint:usetesting // the name of the test would make it too long
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	longest := maxSocketPath - len("/"+longestSocket)
	for _, length := range []int{len(root) + 2, longest - len("/"+scratchPrefix+"4294967295") - 1, longest - 1, longest} {
		base := filepath.Join(root, strings.Repeat("d", length-len(root)-1))
		dir, remove, err := newSockets(base, hclog.NewNullLogger())
		require.NoError(t, err)
		path := filepath.Join(dir, longestSocket)
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
		require.NoError(t, err, "%d bytes: %s", len(path), path)
		require.NoError(t, listener.Close())
		remove()
		left, err := filepath.Glob(filepath.Join(base, scratchPrefix+"*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
