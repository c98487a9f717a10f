package program

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindPrefersTheProgramThatCameWithThePlugin(t *testing.T) {
	t.Parallel()
	plugin, err := os.Executable()
	require.NoError(t, err)
	came := filepath.Join(filepath.Dir(plugin), ".cleat-restic", "came-along")
	require.NoError(t, os.MkdirAll(filepath.Dir(came), 0o755))
	syscall.ForkLock.RLock() // no process that is forked meanwhile keeps it open for writing
	err = os.WriteFile(came, []byte("#!/bin/sh\necho restic 0.16.4 compiled with go\n"), 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	p, err := Find(t.Context(), "came-along")
	require.NoError(t, err)
	require.Equal(t, "0.16.4", p.Version())
	_, err = Find(t.Context(), "stayed-away")
	require.ErrorContains(t, err, "install restic 0.14 or newer in PATH")
}
