package status_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

// TestOverview has namespaces that are protected, only partly, by an old backup, and not at all, and schedules that are
// late.
func TestOverview(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	backup := func(name string, ago time.Duration, change func(*velerov1.Backup), namespaces ...string) *velerov1.Backup {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		b.Spec.IncludedNamespaces = namespaces
		b.Status.Phase, b.Status.CompletionTimestamp = velerov1.BackupPhaseCompleted, &metav1.Time{Time: now.Add(-ago)}
		if change != nil {
			change(b)
		}
		return b
	}
	of := status.OverviewOf{
		Namespace: "velero", Since: 24 * time.Hour, Namespaces: []string{"old", "partly", "failed", "shop", "both", "never"},
		Backups: []*velerov1.Backup{
			backup("shop-1", 3*time.Hour, func(b *velerov1.Backup) {
				b.Spec.ExcludedNamespaceScopedResources = []string{"volumesnapshots.snapshot.storage.k8s.io"}
			}, "shop", "both"), backup("shop-2", 2*time.Hour, nil, "shop"),
			backup("old-1", 30*time.Hour, nil, "old", "gone"), backup("old-2", 25*time.Hour, nil, "ol*"),
			backup("partly-1", time.Hour, func(b *velerov1.Backup) {
				b.Spec.LabelSelector = &metav1.LabelSelector{}
				b.Labels = map[string]string{velerov1.ScheduleNameLabel: "nightly"}
			}, "partly", "both"),
			backup("failed-1", time.Hour, func(b *velerov1.Backup) {
				b.Status.Phase = velerov1.BackupPhasePartiallyFailed
			}, "failed"),
			{ObjectMeta: metav1.ObjectMeta{Name: "runs"}, Status: velerov1.BackupStatus{
				Phase: velerov1.BackupPhaseInProgress, StartTimestamp: &metav1.Time{Time: now}}},
		},
		Schedules: []*velerov1.Schedule{
			{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: velerov1.ScheduleSpec{Schedule: "0 3 * * *"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "hourly", CreationTimestamp: metav1.NewTime(now.Add(-3 * time.Hour))},
				Spec: velerov1.ScheduleSpec{Schedule: "@every 1h"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "paused"}, Spec: velerov1.ScheduleSpec{Schedule: "@every 1h", Paused: true}},
			{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}, Spec: velerov1.ScheduleSpec{Schedule: "often"},
				Status: velerov1.ScheduleStatus{Phase: velerov1.SchedulePhaseFailedValidation, ValidationErrors: []string{"no"}}},
		},
		Locations: []*velerov1.BackupStorageLocation{{ObjectMeta: metav1.ObjectMeta{Name: "default"},
			Status: velerov1.BackupStorageLocationStatus{Phase: velerov1.BackupStorageLocationPhaseUnavailable, Message: "away"}}},
	}
	doc := status.NewOverview(of, now)
	var got [][3]any
	for _, p := range doc.Namespaces {
		got = append(got, [3]any{p.Namespace, p.Backup, p.Protected && !p.Partly})
	}
	require.Equal(t, [][3]any{{"failed", "", false}, {"never", "", false}, {"old", "old-2", false},
		{"both", "shop-1", true}, {"partly", "partly-1", false}, {"shop", "shop-2", true}}, got)
	require.Equal(t, 3, doc.Unprotected)
	require.Equal(t, 1, doc.Running)
	require.Equal(t, []string{
		"Schedule hourly has made no good backup, although it is due every 1h0m0s", "Schedule wrong is not valid: no",
		"Location default is unavailable: away"}, doc.Trouble)
	nightly := doc.Schedules[0]
	require.Equal(t, "partly-1", nightly.Backup)
	require.Equal(t, "24h0m0s", nightly.Interval)
	require.Equal(t, now.Add(15*time.Hour), nightly.Next.Time)
	require.Nil(t, doc.Schedules[2].Next)
}

// TestCauses groups messages by what has caused them.
func TestCauses(t *testing.T) {
	t.Parallel()
	r := &results.Result{Velero: []string{"upload: disk full"}, Cluster: []string{"create x: denied\nby policy"},
		Namespaces: map[string][]string{"a": {"create pods/a: denied by policy", "create pods/b: denied by policy"}}}
	require.Equal(t, []status.Cause{
		{Cause: "denied by policy", Count: 3, Messages: []string{"cluster: create x: denied by policy",
			"namespace a: create pods/a: denied by policy", "namespace a: create pods/b: denied by policy"}},
		{Cause: "disk full", Count: 1, Messages: []string{"upload: disk full"}},
	}, status.Causes(r, ""))
	require.Equal(t, []status.Cause{{Cause: "denied by policy", Count: 1,
		Messages: []string{"namespace a: create pods/b: denied by policy"}}}, status.Causes(r, "PODS/B"))
	for range 100 {
		r.Velero = append(r.Velero, "upload: disk full")
	}
	require.Equal(t, 51, status.Causes(r, "")[0].More)
}
