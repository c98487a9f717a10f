package schedules

import (
	"context"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// backupMoment is the layout of the time in UTC at the end of the name of a scheduled backup.
const backupMoment = "20060102150405"

// maxScheduleName is the longest name of a schedule for which the names of its backups are valid.
const maxScheduleName = 253 - 1 - len(backupMoment)

// CheckName returns an error for a name of a schedule with which its backups would have no valid names.
func CheckName(name string) error {
	if len(name) > maxScheduleName {
		return fmt.Errorf("the name of the schedule has %d characters, want at most %d, as backups are named after it",
			len(name), maxScheduleName)
	}
	return nil
}

// NewBackup returns the backup of a schedule for a time. It has the labels of the template, or else those of the
// schedule, and the annotations of both, of which those of the template count.
func NewBackup(schedule *velerov1.Schedule, moment time.Time) *velerov1.Backup {
	from := schedule.Spec.Template.Metadata.Labels
	if from == nil {
		from = schedule.Labels
	}
	labels := make(map[string]string)
	maps.Copy(labels, from)
	labels[velerov1.ScheduleNameLabel] = velerov1.ValidLabelValue(schedule.Name)
	annotations := maps.Clone(schedule.Annotations)
	if annotations == nil {
		annotations = make(map[string]string)
	}
	maps.Copy(annotations, schedule.Spec.Template.Metadata.Annotations)
	b := &velerov1.Backup{
		TypeMeta: metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: schedule.Namespace, Name: schedule.Name + "-" + moment.UTC().Format(backupMoment),
			Labels: labels, Annotations: annotations,
		},
		Spec: *schedule.Spec.Template.DeepCopy(),
	}
	if owns := schedule.Spec.UseOwnerReferencesInBackup; owns != nil && *owns {
		b.OwnerReferences = []metav1.OwnerReference{velerov1.ControllerRef("Schedule", schedule)}
	}
	return b
}

// withUnknown returns the backup of a schedule with the fields of the template that this server does not know, if there
// are any: the run of the backup warns of them.
func (r *Controller) withUnknown(
	ctx context.Context, schedule *velerov1.Schedule, b *velerov1.Backup,
) (client.Object, error) {
	raw, unknown, err := r.Raw(ctx, schedule)
	if err != nil || len(unknown) == 0 {
		return b, err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b)
	if err != nil {
		return nil, fmt.Errorf("encode backup %s: %w", b.Name, err)
	}
	spec, _, err := unstructured.NestedMap(raw.Object, "spec", "template")
	if err != nil {
		return nil, fmt.Errorf("read the template of schedule %s: %w", schedule.Name, err)
	}
	object["spec"] = spec
	return &unstructured.Unstructured{Object: object}, nil
}
