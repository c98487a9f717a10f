package cli

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// table is rows of cells below a head.
type table struct {
	head []string
	rows [][]string
}

// print writes the columns aligned.
func (t table) print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range slices.Concat([][]string{t.head}, t.rows) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(strings.Join(row, "\t"), "\t")); err != nil {
			return err
		}
	}
	return out.Flush()
}

// addLabels adds columns with labels: one for each of keys, and one with all when all is set.
func (t *table) addLabels(labels []map[string]string, keys []string, all bool) {
	for _, key := range keys {
		t.head = append(t.head, strings.ToUpper(key[strings.LastIndex(key, "/")+1:]))
		for i := range t.rows {
			t.rows[i] = append(t.rows[i], labels[i][key])
		}
	}
	if all {
		t.head = append(t.head, "LABELS")
		for i := range t.rows {
			t.rows[i] = append(t.rows[i], orNone(metav1.FormatLabelSelector(metav1.SetAsLabelSelector(labels[i]))))
		}
	}
}

// backupTable is what "backup get" prints.
func backupTable(backups []velerov1.Backup, now time.Time) table {
	t := table{head: []string{"NAME", "STATUS", "ERRORS", "WARNINGS", "CREATED", "EXPIRES", "STORAGE LOCATION", "QUEUE POSITION", "SELECTOR"}}
	for i := range backups {
		b := &backups[i]
		status := cmp.Or(string(b.Status.Phase), string(velerov1.BackupPhaseNew))
		if b.DeletionTimestamp != nil {
			status = string(velerov1.BackupPhaseDeleting)
		}
		position := ""
		if b.Status.QueuePosition > 0 {
			position = strconv.Itoa(b.Status.QueuePosition)
		}
		t.rows = append(t.rows, []string{
			b.Name, status, strconv.Itoa(b.Status.Errors), strconv.Itoa(b.Status.Warnings), moment(b.Status.StartTimestamp),
			until(b.Status.Expiration, now), b.Spec.StorageLocation, position, selectorText(b.Spec.LabelSelector, b.Spec.OrLabelSelectors),
		})
	}
	return t
}

// restoreTable is what "restore get" prints.
func restoreTable(restores []velerov1.Restore) table {
	t := table{head: []string{"NAME", "BACKUP", "STATUS", "STARTED", "COMPLETED", "ERRORS", "WARNINGS", "CREATED", "SELECTOR"}}
	for i := range restores {
		r := &restores[i]
		status := cmp.Or(string(r.Status.Phase), string(velerov1.RestorePhaseNew))
		if r.DeletionTimestamp != nil {
			status = "Deleting"
		}
		t.rows = append(t.rows, []string{
			r.Name, r.Spec.BackupName, status, moment(r.Status.StartTimestamp), moment(r.Status.CompletionTimestamp),
			strconv.Itoa(r.Status.Errors), strconv.Itoa(r.Status.Warnings), moment(&r.CreationTimestamp),
			selectorText(r.Spec.LabelSelector, r.Spec.OrLabelSelectors),
		})
	}
	return t
}

// scheduleTable is what "schedule get" prints.
func scheduleTable(schedules []velerov1.Schedule, now time.Time) table {
	t := table{head: []string{"NAME", "STATUS", "CREATED", "SCHEDULE", "BACKUP TTL", "LAST BACKUP", "SELECTOR", "PAUSED"}}
	for i := range schedules {
		s := &schedules[i]
		t.rows = append(t.rows, []string{
			s.Name, phaseOr(string(s.Status.Phase)), moment(&s.CreationTimestamp), s.Spec.Schedule, s.Spec.Template.TTL.Duration.String(),
			until(s.Status.LastBackup, now), selectorText(s.Spec.Template.LabelSelector, s.Spec.Template.OrLabelSelectors), strconv.FormatBool(s.Spec.Paused),
		})
	}
	return t
}

// madeBySchedule matches the names that schedules give: a name and a moment.
var madeBySchedule = regexp.MustCompile(`^(.+)-(\d{14})$`)

// sortBackups sorts by name, but of those that one schedule made the newest first.
func sortBackups(backups []velerov1.Backup) {
	slices.SortFunc(backups, func(a, b velerov1.Backup) int {
		x, y := madeBySchedule.FindStringSubmatch(a.Name), madeBySchedule.FindStringSubmatch(b.Name)
		if x != nil && y != nil && x[1] == y[1] {
			return cmp.Compare(y[2], x[2])
		}
		return cmp.Compare(a.Name, b.Name)
	})
}

// moment is a time as people read it, in UTC.
func moment(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return t.UTC().Format("2006-01-02 15:04:05 -0700 MST")
}

// until is how far away a moment is.
func until(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "n/a"
	}
	if left := t.Sub(now); left > 0 {
		return duration.HumanDuration(left)
	}
	return duration.HumanDuration(now.Sub(t.Time)) + " ago"
}

// selectorText is a selection by label as people write it.
func selectorText(one *metav1.LabelSelector, alternatives []*metav1.LabelSelector) string {
	if len(alternatives) > 0 {
		var texts []string
		for _, selector := range alternatives {
			texts = append(texts, metav1.FormatLabelSelector(selector))
		}
		return strings.Join(texts, " or ")
	}
	return orNone(metav1.FormatLabelSelector(one))
}

func orNone(text string) string { return cmp.Or(text, "<none>") }
