package metrics_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// TestMetricsAreThoseOfWhatExists checks the metrics of a server that has not run anything itself.
func TestMetricsAreThoseOfWhatExists(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	noon := controllertest.Noon()
	of := func(schedule string, phase velerov1.BackupPhase, hour int) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) {
			b.Labels = map[string]string{velerov1.ScheduleNameLabel: schedule}
			b.Status.Phase, b.Status.Errors = phase, hour
			b.Status.StartTimestamp = run.Timestamp(noon.Add(time.Duration(hour) * time.Hour))
			b.Status.CompletionTimestamp = b.Status.StartTimestamp
		}
	}
	whole := controllertest.NewBackup("b", of("nightly", velerov1.BackupPhaseCompleted, 2))
	undeleted := controllertest.NewBackup("d", of("weekly", velerov1.BackupPhaseDeleting, 1))
	undeleted.Annotations = map[string]string{run.DeletedInPhaseAnnotation: string(velerov1.BackupPhaseCompleted)}
	dry := controllertest.NewBackup("e", of("nightly", velerov1.BackupPhaseFailedValidation, 9))
	dry.Annotations = map[string]string{velerov1.DryRunAnnotation: "true"}
	c.Add(t,
		controllertest.NewBackup("a", of("nightly", velerov1.BackupPhaseCompleted, 1)), whole,
		controllertest.NewBackup("c", of("nightly", velerov1.BackupPhasePartiallyFailed, 3)), undeleted, dry,
		controllertest.NewBackup("f", of("nightly", velerov1.BackupPhaseInProgress, 4)),
		controllertest.NewLocation("here"), controllertest.NewLocation("away", func(l *velerov1.BackupStorageLocation) {
			l.Status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
		}),
		&velerov1.Schedule{ObjectMeta: metav1.ObjectMeta{Name: "hourly"}},
	)
	registry := prometheus.NewPedanticRegistry()
	m, err := metrics.New(registry, c.Client, c.Namespace)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{
		"velero_backup_last_status nightly":               0,
		"velero_backup_last_status weekly":                1,
		"velero_backup_items_errors nightly":              3,
		"velero_backup_items_errors weekly":               1,
		"velero_backup_last_successful_timestamp nightly": float64(noon.Add(2 * time.Hour).Unix()),
		"velero_backup_last_successful_timestamp weekly":  float64(noon.Add(time.Hour).Unix()),
		"velero_backup_total":                             5,
		"velero_restore_total":                            0,
		"velero_backup_location_status_gauge away":        0,
		"velero_backup_location_status_gauge here":        1,
	}, measured(t, registry))

	// Counters end with their objects, even if they have counted something after the last scrape.
	whole.Status.CSIVolumeSnapshotsAttempted = 1
	gone := whole.DeepCopy()
	gone.Name, gone.Labels = "gone", map[string]string{velerov1.ScheduleNameLabel: "gone"}
	for _, b := range []*velerov1.Backup{whole, gone} {
		m.BackupStarted(b)
		m.BackupEnded(b)
		m.DeletionEnded(b, nil)
	}
	for _, schedule := range []string{"hourly", "gone"} {
		m.ScheduleSeen(schedule, time.Hour)
	}
	for series := range measured(t, registry) {
		require.NotContains(t, strings.Fields(series), "gone")
	}
	require.Subset(t, slices.Collect(maps.Keys(measured(t, registry))), []string{
		"velero_backup_attempt_total nightly", "velero_backup_duration_seconds nightly",
		"velero_csi_snapshot_attempt_total b nightly",
		"velero_backup_deletion_success_total nightly", "velero_schedule_expected_interval_seconds hourly",
	})
}

// measured returns the values of all time series, by their names and the values of their labels.
func measured(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return values
}
