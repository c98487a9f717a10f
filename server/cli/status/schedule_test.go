package status

import (
	"io"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
)

func schedules() []velerov1.Schedule {
	return []velerov1.Schedule{
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "nightly",
				CreationTimestamp: *statustest.At(-60 * time.Hour), Labels: map[string]string{"team": "a"}},
			Spec: velerov1.ScheduleSpec{Schedule: "CRON_TZ=Europe/Berlin 0 3 * * *", Template: velerov1.BackupSpec{
				IncludedNamespaces: []string{"shop"}, TTL: metav1.Duration{Duration: 720 * time.Hour},
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}},
			}},
			Status: velerov1.ScheduleStatus{Phase: velerov1.SchedulePhaseEnabled, LastBackup: statustest.At(-10 * time.Hour),
				LastSkipped: statustest.At(-34 * time.Hour)},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "wrong", CreationTimestamp: *statustest.At(0)},
			Spec:       velerov1.ScheduleSpec{Schedule: "0 3 * *", Paused: true},
			Status: velerov1.ScheduleStatus{Phase: velerov1.SchedulePhaseFailedValidation, ValidationErrors: []string{
				"invalid schedule: expected exactly 5 fields, found 4: [0 3 * *]",
			}},
		},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "fresh", CreationTimestamp: *statustest.At(0)},
			Spec: velerov1.ScheduleSpec{Schedule: "@daily"}},
	}
}

func TestScheduleTable(t *testing.T) {
	t.Parallel()
	statustest.Golden(t, "schedules.txt", ScheduleTable(schedules(), statustest.Noon()).Print)
}

func TestDescribeSchedule(t *testing.T) {
	t.Parallel()
	statustest.Golden(t, "describe_schedule.txt", func(w io.Writer) error { return DescribeSchedule(w, &schedules()[0]) })
	statustest.Golden(t, "describe_schedule_wrong.txt",
		func(w io.Writer) error { return DescribeSchedule(w, &schedules()[1]) })
}
