package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// scheduleTable is what "schedule get" prints.
func scheduleTable(schedules []velerov1.Schedule, now time.Time) table {
	t := table{head: []string{"NAME", "STATUS", "CREATED", "SCHEDULE", "BACKUP TTL", "LAST BACKUP", "SELECTOR", "PAUSED"}}
	for i := range schedules {
		s := &schedules[i]
		t.rows = append(t.rows, []string{
			s.Name, phaseOr(string(s.Status.Phase)), formatTime(&s.CreationTimestamp), s.Spec.Schedule, s.Spec.Template.TTL.Duration.String(),
			remaining(s.Status.LastBackup, now), formatSelector(s.Spec.Template.LabelSelector, s.Spec.Template.OrLabelSelectors), strconv.FormatBool(s.Spec.Paused),
		})
	}
	return t
}

func describeSchedule(w io.Writer, s *velerov1.Schedule) error {
	d := newDescription(w)
	printMetadata(d, &s.ObjectMeta)
	d.gap()
	d.pairs([2]string{"Phase", phaseOr(string(s.Status.Phase))}, [2]string{"Paused", fmt.Sprint(s.Spec.Paused)})
	printValidationErrors(d, s.Status.ValidationErrors)
	d.gap()
	d.pairs([2]string{"Schedule", s.Spec.Schedule}, [2]string{"Last Backup", formatTime(s.Status.LastBackup)},
		[2]string{"Last Skipped", formatTime(s.Status.LastSkipped)})
	d.gap()
	d.section("Backup Template", func() { printBackupSpec(d, &s.Spec.Template) })
	return d.err()
}
