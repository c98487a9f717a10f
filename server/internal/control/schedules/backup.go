package schedules

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// backupMoment is the layout of the time in UTC at the end of the name of a scheduled backup.
const backupMoment = "20060102150405"

// maxScheduleName is the longest name of a schedule for which the names of its backups are valid.
const maxScheduleName = 253 - 1 - len(backupMoment)

// NewBackup returns the backup of a schedule for a time. It has the labels of the template, or else those of the
// schedule, and the annotations of the schedule.
func NewBackup(schedule *velerov1.Schedule, moment time.Time) *velerov1.Backup {
	from := schedule.Spec.Template.Metadata.Labels
	if from == nil {
		from = schedule.Labels
	}
	labels := make(map[string]string)
	maps.Copy(labels, from)
	labels[velerov1.ScheduleNameLabel] = velerov1.ValidLabelValue(schedule.Name)
	b := &velerov1.Backup{
		TypeMeta: metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: schedule.Namespace, Name: schedule.Name + "-" + moment.UTC().Format(backupMoment),
			Labels: labels, Annotations: maps.Clone(schedule.Annotations),
		},
		Spec: *schedule.Spec.Template.DeepCopy(),
	}
	if owns := schedule.Spec.UseOwnerReferencesInBackup; owns != nil && *owns {
		b.OwnerReferences = []metav1.OwnerReference{velerov1.ControllerRef("Schedule", schedule)}
	}
	return b
}
