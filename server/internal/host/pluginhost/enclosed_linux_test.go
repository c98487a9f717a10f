package pluginhost

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/queueadmission/fifo"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

func TestEnclosedPluginHasAProcessOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	if os.Getuid() != 0 {
		action, end, err := Enclosed(h.Host, kinds.BackupItemAction(), "example.io/behave", &process.Enclosure{})
		require.NoError(t, err)
		defer end()
		_, err = action.AppliesTo(t.Context())
		require.ErrorContains(t, err, "SYS_ADMIN")
		return
	}
	shared := processOf(t, h.behave(t))
	action, end, err := Enclosed(h.Host, kinds.BackupItemAction(), "example.io/behave", &process.Enclosure{})
	require.NoError(t, err)
	_, err = action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Len(t, h.pool.Running(), 2)
	end()
	require.Eventually(t, func() bool {
		running := h.pool.Running()
		return len(running) == 1 && running[0].PID == shared
	}, longEnough, aMoment)
}

func TestBuiltInPluginIsNotEnclosed(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, t.TempDir(), func(c *Config) { c.BuiltIns = []framework.Registration{fifo.Register()} })
	_, _, err := Enclosed(h.Host, kinds.QueueAdmission(), "cleat.dev/fifo", &process.Enclosure{})
	require.ErrorContains(t, err, "give built-in plugins a process of their own (plugins.isolateBuiltIns)")
	_, _, err = Enclosed(h.Host, kinds.DataMover(), "example.io/none", &process.Enclosure{})
	require.ErrorContains(t, err, "unknown DataMover")
}
