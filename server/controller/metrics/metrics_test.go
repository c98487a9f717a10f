package metrics_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/controllertest"
	"github.com/cleat-dev/cleat/server/controller/metrics"
	"github.com/cleat-dev/cleat/server/run"
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
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP velero_backup_last_status 1 when the last backup ended Completed, 0 otherwise.
# TYPE velero_backup_last_status gauge
velero_backup_last_status{schedule="nightly"} 0
velero_backup_last_status{schedule="weekly"} 1
# HELP velero_backup_items_errors Errors of the last backup.
# TYPE velero_backup_items_errors gauge
velero_backup_items_errors{schedule="nightly"} 3
velero_backup_items_errors{schedule="weekly"} 1
# HELP velero_backup_last_successful_timestamp When the last Completed backup ended, in Unix seconds.
# TYPE velero_backup_last_successful_timestamp gauge
velero_backup_last_successful_timestamp{schedule="nightly"} 1.7726328e+09
velero_backup_last_successful_timestamp{schedule="weekly"} 1.7726292e+09
# HELP velero_backup_total Backups that exist.
# TYPE velero_backup_total gauge
velero_backup_total 5
# HELP velero_backup_location_status_gauge 1 when the backup storage location is available, 0 otherwise.
# TYPE velero_backup_location_status_gauge gauge
velero_backup_location_status_gauge{backup_location_name="away"} 0
velero_backup_location_status_gauge{backup_location_name="here"} 1
`), "velero_backup_last_status", "velero_backup_items_errors", "velero_backup_last_successful_timestamp", "velero_backup_total", "velero_backup_location_status_gauge"))

	// Counters end with what they count, also if they have counted something after the last scrape.
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
	for metric, series := range map[string]int{
		"velero_backup_attempt_total": 1, "velero_backup_success_total": 1, "velero_backup_duration_seconds": 1, "velero_csi_snapshot_attempt_total": 1,
		"velero_backup_deletion_success_total": 1, "velero_schedule_expected_interval_seconds": 1,
	} {
		count, err := testutil.GatherAndCount(registry, metric)
		require.NoError(t, err)
		require.Equal(t, series, count, metric)
	}
}
