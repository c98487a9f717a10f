package restic_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins/restic"
	"github.com/cleat-dev/cleat/server/test/hosting"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/versioning/datamover"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// processes returns the ids of the processes whose command line has a text.
func processes(text string) (found []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		line, err := os.ReadFile(file)
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		if err == nil && strings.Contains(string(line), text) {
			found = append(found, pid)
		}
	}
	return found
}

func TestKilledPluginEndsItsLoadAndResticWithIt(t *testing.T) {
	t.Parallel()
	program := programs.Restic(t)
	r, volume, plugins := repository(t), t.TempDir(), t.TempDir()
	binary := filepath.Join(plugins, "cleat-restic")
	programs.Copy(t, "plugins/restic/cmd/cleat-restic", binary)
	host, err := hosting.New(t.Context(), hosting.Config{
		Dir: plugins, Log: hclog.NewNullLogger(), Metrics: prometheus.NewRegistry(),
		Environment: append(os.Environ(), "CLEAT_STATE_DIR="+t.TempDir()),
		Configs:     map[string][]byte{restic.Name: []byte(`{"program": "` + program + `", "uploadLimit": "1Mi"}`)},
	})
	require.NoError(t, err)
	t.Cleanup(host.Close)
	mover, err := hosting.Named(host, kinds.DataMover(), restic.Name)
	require.NoError(t, err)
	write(t, volume, map[string]string{"a": random(8 << 20)})
	load := datamover.Backup{
		Repository: datamover.Repository{Provider: r.Provider, Config: r.Config, Path: r.Path, Password: r.Password},
		Key:        "load", Volume: datamover.Volume{Path: volume},
	}
	killed := false
	_, err = mover.Backup(t.Context(), load, func(p datamover.Progress) {
		if !killed && p.DoneBytes > 0 {
			killed = true
			for _, pid := range processes(binary) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	require.ErrorContains(t, err, "DataMover(cleat.dev/restic): ")
	require.True(t, killed)
	require.NotErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return len(processes(folder(r))) == 0 }, longEnough, 100*time.Millisecond)
	require.Empty(t, snapshots(t, r))
	load.Again = true
	stored, err := mover.Backup(t.Context(), load, nil)
	require.NoError(t, err)
	again, err := mover.Backup(t.Context(), load, nil)
	require.NoError(t, err)
	require.Equal(t, stored.SnapshotID, again.SnapshotID)
	require.Len(t, snapshots(t, r), 1)
}
