package backupqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// measured returns the metrics of a registry by name and labels, without "cleat_queue_", histograms by their counts.
func measured(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "cleat_queue_")
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// restarted starts the queue with new metrics, as in a new process.
func (s *queueSite) restarted() *prometheus.Registry {
	s.t.Helper()
	registry := prometheus.NewRegistry()
	var err error
	s.metrics, err = NewMetrics(registry)
	require.NoError(s.t, err)
	s.start()
	return registry
}

// The metrics show the queue right after a start, too, and after all backups have left it.
func TestMetricsShowTheQueue(t *testing.T) {
	t.Parallel()
	s := newQueueSite(t, 2)
	s.Add(t, controllertest.NewBackup("runs", of("ns1"), controllertest.InPhase(velerov1.BackupPhaseInProgress)))
	s.Add(t, controllertest.NewBackup("a-waits", of("ns1")))
	s.Add(t, controllertest.NewBackup("b-starts", of("ns2")))
	s.Add(t, controllertest.NewBackup("c-later", of("ns3")))
	metrics := s.restarted()
	shows := func(want map[string]float64) {
		t.Helper()
		var got map[string]float64
		require.Eventually(t, func() bool {
			got = measured(t, metrics)
			delete(got, "decision_seconds") // their number is random
			delete(got, "unwritable")
			return fmt.Sprint(got) == fmt.Sprint(want)
		}, 5*time.Minute, 5*time.Millisecond, "want %v, got last %v", want, &got)
	}
	s.shows("runs InProgress", "a-waits Queued 1", "b-starts ReadyToStart", "c-later Queued 2")
	full := map[string]float64{"depth": 2, "running": 2, "wait_seconds": 1, "waiting NamespaceOverlap": 1,
		"waiting Limit": 1}
	shows(full) // although "b-starts" has not begun
	require.Positive(t, measured(t, metrics)["decision_seconds"])

	s.stop()
	metrics = s.restarted()
	full["wait_seconds"] = 0
	shows(full)

	s.move("b-starts", velerov1.BackupPhaseInProgress)
	for _, name := range []string{"runs", "b-starts"} {
		s.move(name, velerov1.BackupPhaseCompleted)
	}
	s.shows("runs Completed", "a-waits ReadyToStart", "b-starts Completed", "c-later ReadyToStart")
	shows(map[string]float64{"depth": 0, "running": 2, "wait_seconds": 2})
	for _, name := range []string{"a-waits", "c-later"} {
		s.move(name, velerov1.BackupPhaseInProgress)
		s.move(name, velerov1.BackupPhaseFailed)
	}
	shows(map[string]float64{"depth": 0, "running": 0, "wait_seconds": 2})
}

func TestMetricsLimitTheNumberOfReasons(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	require.NoError(t, err)
	for round := range 3 {
		plan := queue.Plan{Reasons: map[string]int{"Limit": 7, "Freeze": 5}}
		for i := range 100 {
			plan.Reasons[fmt.Sprintf("R%d%03d", round, i)] = 1
		}
		m.planned(queue.Line{}, plan)
		got := measured(t, registry)
		require.Equal(t, 7.0, got["waiting Limit"])
		require.Equal(t, 5.0, got["waiting Freeze"])
		require.Equal(t, 1.0, got[fmt.Sprintf("waiting R%d000", round)])
		require.Equal(t, 82.0, got["waiting Other"])
		require.Len(t, got, 5+maxReasons+1, "five without a reason, and those")
	}
}
