package status

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// BackupTable returns the table of "backup get".
func BackupTable(backups []velerov1.Backup, now time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAME", "STATUS", "ERRORS", "WARNINGS", "CREATED", "EXPIRES", "STORAGE LOCATION",
		"QUEUE POSITION", "SELECTOR"}}
	// The column is there only where backups are rehearsed.
	rehearsed := slices.ContainsFunc(backups, func(b velerov1.Backup) bool {
		return b.Annotations[velerov1.RehearsalsAnnotation] != ""
	})
	if rehearsed {
		t.Head = append(t.Head, "REHEARSED")
	}
	for i := range backups {
		b := &backups[i]
		status := phaseOf(b, string(b.Status.Phase))
		if b.DeletionTimestamp != nil {
			status = string(velerov1.BackupPhaseDeleting)
		}
		if state := keptState(b); state != "" {
			status += " (" + state + ")"
		}
		position := ""
		if b.Status.QueuePosition > 0 {
			position = strconv.Itoa(b.Status.QueuePosition)
		}
		t.Rows = append(t.Rows, []string{
			b.Name, status, strconv.Itoa(b.Status.Errors), strconv.Itoa(b.Status.Warnings),
			layout.FormatTime(b.Status.StartTimestamp),
			layout.Remaining(b.Status.Expiration, now), b.Spec.StorageLocation, position, formatSelector(b.Spec.LabelSelector,
				b.Spec.OrLabelSelectors),
		})
		if rehearsed {
			t.Rows[i] = append(t.Rows[i], lastRehearsal(b))
		}
	}
	addVerified(&t, backups, now)
	return t
}

// keptState returns why a backup is not deleted: "kept until DATE" if its deletion is requested or it has expired, and
// "held"; "" if nothing keeps it.
func keptState(b *velerov1.Backup) string {
	switch {
	case b.Annotations[velerov1.KeptAnnotation] != "":
		return velerov1.KeptText(b.Annotations[velerov1.KeptAnnotation])
	case b.Annotations[velerov1.HeldAnnotation] == "true":
		return "held"
	}
	return ""
}

// madeBySchedule matches the names that schedules give to backups: their own name and a time.
var madeBySchedule = regexp.MustCompile(`^(.+)-(\d{14})$`)

// SortBackups sorts by name. Of the backups of one schedule, the newest comes first.
func SortBackups(backups []velerov1.Backup) {
	slices.SortFunc(backups, func(a, b velerov1.Backup) int {
		x, y := madeBySchedule.FindStringSubmatch(a.Name), madeBySchedule.FindStringSubmatch(b.Name)
		if x != nil && y != nil && x[1] == y[1] {
			return cmp.Compare(y[2], x[2])
		}
		return cmp.Compare(a.Name, b.Name)
	})
}

// formatSelector returns label selectors as users write them.
func formatSelector(one *metav1.LabelSelector, alternatives []*metav1.LabelSelector) string {
	if len(alternatives) > 0 {
		var texts []string
		for _, selector := range alternatives {
			texts = append(texts, metav1.FormatLabelSelector(selector))
		}
		return strings.Join(texts, " or ")
	}
	return layout.OrNone(metav1.FormatLabelSelector(one))
}
