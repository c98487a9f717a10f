package install_test

import (
	"testing"

	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptInstall_Metrics reads the metrics that dashboards and alerts for Velero use.
func TestAcceptInstall_Metrics(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	v := s.Serve("--metrics-address", "127.0.0.1:0")
	s.Available()
	shop := s.Workload(2)
	v.Measures("velero_backup_total 0", "velero_restore_total 0")
	s.Must("schedule", "create", "nightly", "--schedule", "@yearly", "--paused", "--include-namespaces", shop)
	s.Must("backup", "create", "b", "--from-schedule", "nightly", "--wait")
	s.Must("backup", "create", "c", "--include-namespaces", shop, "--wait")
	s.Must("backup", "create", "d", "--include-namespaces", shop, "--dry-run")
	s.Must("restore", "create", "r", "--from-backup", "b", "--wait")
	v.Measures(
		"velero_backup_total 2", "velero_restore_total 1",
		`velero_backup_tarball_size_bytes{schedule="nightly"} [1-9]\d*`,
		`velero_backup_tarball_size_bytes{schedule=""} [1-9]\d*`,
		`velero_backup_attempt_total{schedule="nightly"} 1`, `velero_backup_success_total{schedule="nightly"} 1`,
		`velero_backup_last_status{schedule="nightly"} 1`, `velero_backup_last_successful_timestamp{schedule="nightly"} .*`,
		`velero_backup_duration_seconds_count{schedule="nightly"} 1`,
		`velero_backup_items_total{schedule="nightly"} [1-9]\d*`,
		`velero_restore_attempt_total{schedule="nightly"} 1`, `velero_restore_success_total{schedule="nightly"} 1`,
		`velero_backup_location_status_gauge{backup_location_name="default"} 1`,
	)
	s.Must("backup", "delete", "c", "--confirm", "--wait")
	v.Measures("velero_backup_total 1", `velero_backup_deletion_attempt_total{schedule=""} 1`,
		`velero_backup_deletion_success_total{schedule=""} 1`)
}
