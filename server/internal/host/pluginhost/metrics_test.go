package pluginhost

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// gathered returns the metrics of plugins in a scrape: the value of each series, the count of each histogram.
func gathered(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			name := strings.TrimPrefix(family.GetName(), "cleat_plugin_") + " " + strings.Join(labels, " ")
			switch {
			case metric.GetHistogram() != nil:
				values[name] = float64(metric.GetHistogram().GetSampleCount())
			case metric.GetCounter() != nil:
				values[name] = metric.GetCounter().GetValue()
			default:
				values[name] = metric.GetGauge().GetValue()
			}
		}
	}
	return values
}

func TestCallMetricsHaveOutcomes(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) {
		c.Metrics = registry
		c.stop = 100 * time.Millisecond
		c.Restart.Threshold = 3
	})
	action := h.behave(t)
	for range 2 {
		_, err := action.AppliesTo(t.Context())
		require.NoError(t, err)
		_, err = execute(t.Context(), action, "nothing")
		require.NoError(t, err)
	}
	_, err := execute(t.Context(), action, "fail")
	require.Error(t, err)
	_, err = execute(t.Context(), action, "rename")
	require.ErrorIs(t, err, versioning.ErrInvalidReply)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := execute(ctx, action, "wait")
		ended <- err
	}()
	h.requireInJournal(t, "waiting")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)

	store, err := h.ObjectStore(t.Context(), "default", "example.io/store", map[string]string{"bucket": "b"})
	require.NoError(t, err)
	require.NoError(t, store.PutObject(t.Context(), "b", "k", strings.NewReader("content")))
	require.ErrorAs(t, store.DeleteObject(calls.WithDeadline(t.Context(), time.Second), "b", "hang"),
		new(*calls.OverdueError))

	_, err = execute(t.Context(), action, "exit")
	require.ErrorAs(t, err, new(*calls.DiedError))
	_, err = execute(t.Context(), action, "exit")
	require.ErrorAs(t, err, new(*calls.DiedError))
	_, err = execute(t.Context(), action, "exit")
	require.ErrorAs(t, err, new(*calls.DiedError))
	_, err = execute(t.Context(), action, "nothing")
	require.ErrorAs(t, err, new(*calls.OutOfServiceError))

	values := gathered(t, registry)
	behave := h.dir + "/behave"
	for series, want := range map[string]float64{
		"call_duration_seconds AppliesTo BackupItemAction ok example.io/behave":        1, // kept for the second time
		"call_duration_seconds Execute BackupItemAction ok example.io/behave":          2,
		"call_duration_seconds Execute BackupItemAction error example.io/behave":       1,
		"call_duration_seconds Execute BackupItemAction invalid example.io/behave":     1,
		"call_duration_seconds Execute BackupItemAction cancelled example.io/behave":   1,
		"call_duration_seconds Execute BackupItemAction died example.io/behave":        3,
		"call_duration_seconds Execute BackupItemAction unavailable example.io/behave": 1,
		"call_duration_seconds Init ObjectStore ok example.io/store":                   1,
		"call_duration_seconds PutObject ObjectStore ok example.io/store":              1,
		"call_duration_seconds DeleteObject ObjectStore overdue example.io/store":      1,
		"failures_total " + behave + " died":                                           3,
		"failures_total " + behave + " hung":                                           1,
		"restarts_total " + behave:                                                     2,
		"out_of_service_total " + behave:                                               1,
	} {
		require.Equal(t, want, values[series], "%s in %v", series, values)
	}
	made := map[string][2]int64{}
	for _, entry := range h.Entries() {
		if entry.Calls > 0 {
			made[entry.Kind+" "+entry.Name] = [2]int64{entry.Calls, entry.Errors}
		}
	}
	require.Equal(t, map[string][2]int64{"BackupItemAction example.io/behave": {10, 6},
		"ObjectStore example.io/store": {3, 1}}, made)
}

func TestProcessMetricsHaveCountAndMemory(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	h := newTestHost(t, pluginDir(t, "behave"), func(c *Config) { c.Metrics = registry })
	action := h.behave(t)
	pid := processOf(t, action)
	_, err := h.ObjectStore(t.Context(), "default", "example.io/store", nil)
	require.NoError(t, err)
	behave := h.dir + "/behave"
	values := gathered(t, registry)
	require.Equal(t, 2.0, values["processes "+behave], "one for all actions, one for the location")

	state := h.supervisor().State()
	require.Equal(t, pid, state.PID)
	require.Zero(t, state.Restarts)
	if _, err := os.Stat("/proc/self/statm"); err == nil {
		require.Greater(t, values["resident_memory_bytes "+behave], float64(2<<20))
		require.Greater(t, state.ResidentBytes, int64(1<<20))
	}

	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	requireReaped(t, pid)
	next := processOf(t, action)
	state = h.supervisor().State()
	require.Equal(t, next, state.PID)
	require.Equal(t, 1, state.Restarts)

	h.Close()
	require.Equal(t, process.Process{Restarts: 1}, h.supervisor().State(), strconv.Itoa(next))
	require.Empty(t, gathered(t, registry), "another host may register its own")
}

func TestBuiltInCallsHaveMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	host, err := New(t.Context(), Config{Log: hclog.NewNullLogger(), BuiltIns: builtIns("example.io/behave"),
		Metrics: registry})
	require.NoError(t, err)
	defer host.Close()
	for range 2 {
		session := host.Session("", hclog.NewNullLogger())
		action := All(session, kinds.BackupItemActions()...)[0]
		_, err = action.AppliesTo(t.Context())
		require.NoError(t, err)
		_, err = execute(t.Context(), action, "nothing")
		require.NoError(t, err)
		session.Close()
	}
	values := gathered(t, registry)
	require.Equal(t, 1.0, values["call_duration_seconds AppliesTo BackupItemAction ok example.io/behave"])
	require.Equal(t, 2.0, values["call_duration_seconds Execute BackupItemAction ok example.io/behave"])

	_, err = New(t.Context(), Config{Log: hclog.NewNullLogger(), Metrics: registry})
	var taken prometheus.AlreadyRegisteredError
	require.True(t, errors.As(err, &taken), "%v", err)
}
