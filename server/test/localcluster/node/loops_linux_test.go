package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRemoveDetachesLoopDevices(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cluster")
	require.NoError(t, os.Mkdir(dir, 0o755))
	file := filepath.Join(dir, "device")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 1<<20))
	attach := func(what string) string {
		out, err := exec.Command("losetup", "--find", "--show", what).Output()
		if err != nil {
			t.Skipf("loop devices need root and losetup: %v", err)
		}
		return strings.TrimSpace(string(out))
	}
	first := attach(file)
	second := attach(first)
	require.NoError(t, Remove(dir))
	for _, device := range []string{first, second} {
		behind, _ := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
		require.NotContains(t, string(behind), dir, "another test may have the device by now")
		require.NotContains(t, string(behind), first+"\n")
	}
}
