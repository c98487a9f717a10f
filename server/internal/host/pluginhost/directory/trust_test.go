package directory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

func TestTrustAsksWhoCanWriteOnTheWholeWay(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	folder := filepath.Join(above, "folder")
	require.NoError(t, os.Mkdir(folder, 0o755))
	path := filepath.Join(folder, "plugin")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	b, err := process.OpenBinary(path)
	require.NoError(t, err)
	defer func() { _ = b.Close() }()
	for _, trust := range []*Trust{{dir: folder}, {dir: path}, {dir: folder, lock: lockOf(t, path)}} {
		// a single file takes the place of a directory
		require.NoError(t, os.Chmod(above, 0o755))
		run, err := trust.Check(b)
		require.NoError(t, err)
		require.Equal(t, trust.lock == nil, run == b, "with a lock it is a copy")
		require.NoError(t, os.Chmod(above, 0o777))
		_, err = trust.Check(b)
		require.ErrorContains(t, err, "others than its owner can change the directory "+above)
	}
	for _, trust := range []*Trust{{dir: folder, named: true}, {dir: above, volume: above}} {
		_, err := trust.Check(b)
		require.NoError(t, err)
	}
	_, err = (&Trust{dir: folder, volume: folder}).Check(b)
	require.ErrorContains(t, err, "others than its owner can change the directory "+above, "it is above the volume")
}

func lockOf(t *testing.T, path string) *pluginlock.Lock {
	t.Helper()
	sum, err := pluginlock.SumFile(path)
	require.NoError(t, err)
	return &pluginlock.Lock{Plugins: []pluginlock.Plugin{{Path: filepath.Base(path), SHA256: sum}}}
}
