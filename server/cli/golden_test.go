package cli

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/server/status/layout"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares what print writes with a file.
func golden(t *testing.T, name string, print func(io.Writer) error) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, print(&out))
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

func at(d time.Duration) *metav1.Time { return new(metav1.NewTime(noon().Add(d))) }

func backups() []velerov1.Backup {
	return []velerov1.Backup{
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "nightly-20260301000000", Labels: map[string]string{"team": "a", "velero.io/schedule-name": "nightly"}},
			Spec:       velerov1.BackupSpec{StorageLocation: "default"},
			Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted, StartTimestamp: at(-60 * time.Hour), Expiration: at(-time.Hour)},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "nightly-20260302000000", Labels: map[string]string{"team": "b"}},
			Spec:       velerov1.BackupSpec{StorageLocation: "default", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}},
			Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhasePartiallyFailed, Errors: 2, Warnings: 1, StartTimestamp: at(-36 * time.Hour), Expiration: at(29 * 24 * time.Hour)},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "waiting"},
			Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhaseQueued, QueuePosition: 3},
		},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "fresh"}},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "going", DeletionTimestamp: at(0)},
			Spec: velerov1.BackupSpec{StorageLocation: "far", OrLabelSelectors: []*metav1.LabelSelector{
				{MatchLabels: map[string]string{"a": "b"}}, {MatchLabels: map[string]string{"c": "d"}},
			}},
			Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted, StartTimestamp: at(-time.Minute), Expiration: at(30 * time.Hour)},
		},
	}
}

func TestBackupTable(t *testing.T) {
	t.Parallel()
	list := backups()
	sortBackups(list)
	golden(t, "backups.txt", backupTable(list, noon()).Print)
}

func TestBackupTableWithLabels(t *testing.T) {
	t.Parallel()
	list := backups()[:2]
	table := backupTable(list, noon())
	table.AddLabels([]map[string]string{list[0].Labels, list[1].Labels}, []string{"team", "velero.io/schedule-name"}, true)
	golden(t, "backups_labels.txt", table.Print)
}

func TestRestoreTable(t *testing.T) {
	t.Parallel()
	golden(t, "restores.txt", restoreTable([]velerov1.Restore{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "back", CreationTimestamp: *at(0)},
			Spec:       velerov1.RestoreSpec{BackupName: "nightly"},
			Status:     velerov1.RestoreStatus{Phase: velerov1.RestorePhaseCompleted, StartTimestamp: at(time.Second), CompletionTimestamp: at(time.Minute), Warnings: 4},
		},
		{ObjectMeta: metav1.ObjectMeta{Name: "fresh", CreationTimestamp: *at(0)}, Spec: velerov1.RestoreSpec{BackupName: "nightly"}},
	}).Print)
}

func schedules() []velerov1.Schedule {
	return []velerov1.Schedule{
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "nightly", CreationTimestamp: *at(-60 * time.Hour), Labels: map[string]string{"team": "a"}},
			Spec: velerov1.ScheduleSpec{Schedule: "CRON_TZ=Europe/Berlin 0 3 * * *", Template: velerov1.BackupSpec{
				IncludedNamespaces: []string{"shop"}, TTL: metav1.Duration{Duration: 720 * time.Hour},
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}},
			}},
			Status: velerov1.ScheduleStatus{Phase: velerov1.SchedulePhaseEnabled, LastBackup: at(-10 * time.Hour), LastSkipped: at(-34 * time.Hour)},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "wrong", CreationTimestamp: *at(0)},
			Spec:       velerov1.ScheduleSpec{Schedule: "0 3 * *", Paused: true},
			Status: velerov1.ScheduleStatus{Phase: velerov1.SchedulePhaseFailedValidation, ValidationErrors: []string{
				"invalid schedule: expected exactly 5 fields, found 4: [0 3 * *]",
			}},
		},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "fresh", CreationTimestamp: *at(0)}, Spec: velerov1.ScheduleSpec{Schedule: "@daily"}},
	}
}

func TestScheduleTable(t *testing.T) {
	t.Parallel()
	golden(t, "schedules.txt", scheduleTable(schedules(), noon()).Print)
}

func TestDescribeSchedule(t *testing.T) {
	t.Parallel()
	golden(t, "describe_schedule.txt", func(w io.Writer) error { return describeSchedule(w, &schedules()[0]) })
	golden(t, "describe_schedule_wrong.txt", func(w io.Writer) error { return describeSchedule(w, &schedules()[1]) })
}

func TestDescribeBackup(t *testing.T) {
	t.Parallel()
	b := backups()[1]
	b.Annotations = map[string]string{"velero.io/source-cluster-k8s-gitversion": "v1.36.3"}
	b.Spec.IncludedNamespaces = []string{"shop", "billing"}
	b.Spec.ExcludedNamespaceScopedResources = []string{"events"}
	b.Spec.TTL.Duration = 720 * time.Hour
	b.Spec.OrderedResources = map[string]string{"pods": "shop/db,shop/web"}
	b.Status.FormatVersion = "1.1.0"
	b.Status.CompletionTimestamp = at(-35 * time.Hour)
	b.Status.Progress = &velerov1.BackupProgress{TotalItems: 12, ItemsBackedUp: 10}
	doc := &backupDescription{
		Backup: &b,
		Results: &results.Results{
			Errors: results.Result{
				Velero:     []string{"no namespace matches"},
				Namespaces: map[string][]string{"shop": {" resource: /pods name: /web message: /back up item error: /boom"}},
			},
			Warnings: results.Result{Cluster: []string{"group x could not be discovered"}},
		},
		Resources: map[string][]string{"v1/Pod": {"shop/db", "shop/web"}, "v1/Namespace": {"shop"}},
		Deletions: []deletionAttempt{{Time: layout.FormatTime(at(0)), Phase: "Processed", Errors: []string{"backup is still in progress"}}},
	}
	golden(t, "describe_backup.txt", doc.print)
}

func TestDescribeBackupThatDidNotStart(t *testing.T) {
	t.Parallel()
	waiting := backups()[2]
	golden(t, "describe_backup_queued.txt", newBackupDescription(&waiting).print)
	waiting.Annotations = map[string]string{velerov1.QueueWaitAnnotation: `{"reason":"NamespaceOverlap","message":"shares namespace shop with nightly, which runs",` +
		`"blockers":["nightly"],"namespaces":["shop"],"since":"2026-03-04T11:55:00Z"}`}
	golden(t, "describe_backup_queued_why.txt", newBackupDescription(&waiting).print)
	waiting.Annotations[velerov1.QueueWaitAnnotation] = "soon"
	golden(t, "describe_backup_queued_unreadable.txt", newBackupDescription(&waiting).print)
	invalid := backups()[3]
	invalid.Status.Phase = velerov1.BackupPhaseFailedValidation
	invalid.Status.ValidationErrors = []string{"one thing", "another thing"}
	golden(t, "describe_backup_invalid.txt", (&backupDescription{Backup: &invalid, Problems: []string{"the server does not answer"}}).print)
}

func TestDescribeRestore(t *testing.T) {
	t.Parallel()
	doc := &restoreDescription{
		Restore: &velerov1.Restore{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "back"},
			Spec: velerov1.RestoreSpec{
				BackupName: "nightly", NamespaceMapping: map[string]string{"shop": "shop-copy"},
				ExcludedResources: []string{"nodes", "events"}, ExistingResourcePolicy: velerov1.PolicyTypeUpdate,
				PreserveNodePorts: new(true),
			},
			Status: velerov1.RestoreStatus{
				Phase: velerov1.RestorePhaseFailed, FailureReason: "disk full", StartTimestamp: at(0), CompletionTimestamp: at(time.Minute), Errors: 1,
				Progress: &velerov1.RestoreProgress{TotalItems: 3, ItemsRestored: 2},
			},
		},
		Results:   &results.Results{Errors: results.Result{Velero: []string{"disk full"}}},
		Resources: map[string][]string{"v1/ConfigMap": {"shop-copy/a(created)", "shop-copy/b(skipped)"}},
	}
	golden(t, "describe_restore.txt", doc.print)
}
