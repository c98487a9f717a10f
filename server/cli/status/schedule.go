package status

import (
	"fmt"
	"io"
	"strconv"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// ScheduleTable returns the table of "schedule get".
func ScheduleTable(schedules []velerov1.Schedule, now time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAME", "STATUS", "CREATED", "SCHEDULE", "BACKUP TTL", "LAST BACKUP", "SELECTOR",
		"PAUSED"}}
	for i := range schedules {
		s := &schedules[i]
		t.Rows = append(t.Rows, []string{
			s.Name, PhaseOrNew(string(s.Status.Phase)), layout.FormatTime(&s.CreationTimestamp), s.Spec.Schedule,
			s.Spec.Template.TTL.Duration.String(),
			layout.Remaining(s.Status.LastBackup, now), formatSelector(s.Spec.Template.LabelSelector,
				s.Spec.Template.OrLabelSelectors), strconv.FormatBool(s.Spec.Paused),
		})
	}
	return t
}

// DescribeSchedule writes the description of a schedule.
func DescribeSchedule(w io.Writer, s *velerov1.Schedule) error {
	d := layout.NewDescription(w)
	printMetadata(d, &s.ObjectMeta)
	d.Gap()
	d.Pairs([2]string{"Phase", PhaseOrNew(string(s.Status.Phase))}, [2]string{"Paused", fmt.Sprint(s.Spec.Paused)})
	printPolicies(d, s.Spec.Template.ResourcePolicy, "")
	printValidationErrors(d, s, s.Status.ValidationErrors)
	d.Gap()
	d.Pairs([2]string{"Schedule", s.Spec.Schedule},
		[2]string{"Last Backup", layout.TimeOr(s.Status.LastBackup, "<never>")},
		[2]string{"Last Skipped", layout.FormatTime(s.Status.LastSkipped)})
	d.Gap()
	d.Section("Backup Template", func() { printBackupSpec(d, &s.Spec.Template) })
	return d.Err()
}
