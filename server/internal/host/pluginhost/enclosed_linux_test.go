package pluginhost

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/queueadmission/fifo"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

func TestEnclosedPluginHasAProcessOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave"), nil)
	e := NewEnclosures(h.Host, time.Hour, 2, 1<<30)
	take := func(key string) (int, *Lease) {
		action, lease, err := Enclosed(e, kinds.BackupItemAction(), "example.io/behave", key, &process.Enclosure{})
		require.NoError(t, err)
		_, err = action.AppliesTo(t.Context())
		if os.Getuid() != 0 {
			require.ErrorContains(t, err, "SYS_ADMIN")
			t.Skip("an enclosure needs root")
		}
		require.NoError(t, err)
		return processOf(t, action), lease
	}
	shared := processOf(t, h.behave(t))
	first, lease := take("a")
	require.NotEqual(t, shared, first)
	other, atOnce := take("a")
	require.NotEqual(t, first, other, "a process has one user")
	atOnce.End()
	lease.Return()
	again, lease := take("a")
	require.Equal(t, first, again)
	lease.Return()

	// There are two places, so another key takes the second one, and a third key that of the first.
	second, lease := take("b")
	lease.Return()
	third, lease := take("c")
	require.NotContains(t, []int{first, second}, third)
	lease.Return()
	again, lease = take("b")
	require.Equal(t, second, again)
	lease.Return()
	again, lease = take("a")
	require.NotEqual(t, first, again)

	// One that has died is not taken, and is not started again.
	require.NoError(t, syscall.Kill(again, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !lease.process.supervisor.Runs() }, longEnough, aMoment)
	require.ErrorAs(t, lease.Attach(t.Context(), process.Mount{}), new(*calls.DiedError))
	lease.Return()
	next, lease := take("a")
	require.NotEqual(t, again, next)

	// One that holds too much memory is not kept.
	e.memory = 1
	lease.Return()
	require.False(t, lease.process.supervisor.Runs())
	e.memory = 1 << 30
	again, lease = take("a")
	require.NotEqual(t, next, again)
	lease.End()
	e.idle = 0
	for _, p := range slices.Clone(e.free) {
		e.endIdle(p)
	}
	require.Eventually(t, func() bool {
		running := h.pool.Running()
		return len(running) == 1 && running[0].PID == shared
	}, longEnough, aMoment)
}

func TestBuiltInPluginIsNotEnclosed(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, t.TempDir(), func(c *Config) { c.BuiltIns = []framework.Registration{fifo.Register()} })
	e := NewEnclosures(h.Host, time.Hour, 1, 1<<30)
	_, _, err := Enclosed(e, kinds.QueueAdmission(), "cleat.dev/fifo", "", &process.Enclosure{})
	require.ErrorContains(t, err, "give built-in plugins a process of their own (plugins.isolateBuiltIns)")
	_, _, err = Enclosed(e, kinds.DataMover(), "example.io/none", "", &process.Enclosure{})
	require.ErrorContains(t, err, "unknown DataMover")
}
