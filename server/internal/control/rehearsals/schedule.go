package rehearsals

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/timetable"
)

// Schedules requests a rehearsal of the newest completed backup of a Schedule that may be rehearsed, when the cron
// expression in its annotation is due. The name of the request has the time at which it is due, so that repeated
// attempts create one. If several times were missed, only the last one counts.
type Schedules struct {
	Vouched
	Events events.EventRecorder
	Log    hclog.Logger
	Now    func() time.Time
}

// scheduleLook is the longest time between two looks at a schedule: setting the clock forward causes no event.
const scheduleLook = time.Minute

// Reconcile requests the rehearsal that is due.
func (r *Schedules) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	schedule := new(velerov1.Schedule)
	if err := r.Live.Get(ctx, req.NamespacedName, schedule); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	expression := schedule.Annotations[velerov1.RehearseAnnotation]
	if expression == "" || schedule.DeletionTimestamp != nil || schedule.Spec.Paused {
		return ctrl.Result{}, nil
	}
	now := r.Now()
	times, err := timetable.Parse(expression, now)
	if err != nil {
		r.event(schedule, corev1.EventTypeWarning, "Invalid", "annotation %s: %v", velerov1.RehearseAnnotation, err)
		return ctrl.Result{}, nil
	}
	since, err := time.Parse(time.RFC3339, schedule.Annotations[velerov1.RehearsedAnnotation])
	if err != nil || since.After(now.Add(scheduleLook)) { // the first look, or the clock was set back
		return ctrl.Result{RequeueAfter: time.Millisecond}, r.handled(ctx, schedule, now)
	}
	due := times.Last(since, now)
	if due.IsZero() {
		return ctrl.Result{RequeueAfter: min(scheduleLook, max(times.Next(now).Sub(now), time.Millisecond))}, nil
	}
	if err := r.request(ctx, schedule, due); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: time.Millisecond}, r.handled(ctx, schedule, due)
}

// handled writes the time up to which rehearsals were requested.
func (r *Schedules) handled(ctx context.Context, schedule *velerov1.Schedule, until time.Time) error {
	before := schedule.DeepCopy()
	schedule.Annotations[velerov1.RehearsedAnnotation] = until.UTC().Format(time.RFC3339)
	err := r.Patch(ctx, schedule, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return nil // it is looked at again
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write until when the schedule was rehearsed: %w", err)
	}
	return nil
}

// request requests the rehearsal that is due at a time.
func (r *Schedules) request(ctx context.Context, schedule *velerov1.Schedule, due time.Time) error {
	var list velerov1.BackupList
	err := r.Live.List(ctx, &list, client.InNamespace(schedule.Namespace),
		client.MatchingLabels{velerov1.ScheduleNameLabel: velerov1.ValidLabelValue(schedule.Name)})
	if err != nil {
		return fmt.Errorf("list the backups of schedule %s: %w", schedule.Name, err)
	}
	completed := slices.DeleteFunc(list.Items, func(b velerov1.Backup) bool {
		return run.BackupPhase(&b) != velerov1.BackupPhaseCompleted || b.DeletionTimestamp != nil
	})
	if len(completed) == 0 {
		r.event(schedule, corev1.EventTypeWarning, "NotRehearsed", "no rehearsal at %s: the schedule has no completed backup",
			due.UTC().Format(time.RFC3339))
		return nil
	}
	slices.SortFunc(completed, func(a, b velerov1.Backup) int {
		return cmp.Or(started(&b).Compare(started(&a)), cmp.Compare(b.Name, a.Name))
	})
	newest, refused, err := r.newest(ctx, completed)
	if err != nil {
		return fmt.Errorf("find the newest backup of schedule %s that may be rehearsed: %w", schedule.Name, err)
	}
	if refused != nil {
		r.event(schedule, corev1.EventTypeWarning, "NotRehearsed", "backup %s is not rehearsed: this cluster has not made "+
			"it, and no key of trust.keys has signed it", refused.Name)
	}
	if newest == nil {
		return nil
	}
	restore := New(schedule.Namespace, NameAt(schedule.Name, due), newest.Name, 0)
	restore.Labels = map[string]string{velerov1.ScheduleNameLabel: velerov1.ValidLabelValue(schedule.Name)}
	err = r.Create(ctx, restore)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("request rehearsal %s: %w", restore.Name, err)
	}
	r.Log.Info("requested the rehearsal that is due", "schedule", schedule.Name, "backup", newest.Name, "restore",
		restore.Name)
	r.event(schedule, corev1.EventTypeNormal, "Rehearsing", "rehearsing backup %s as restore %s", newest.Name,
		restore.Name)
	return nil
}

func (r *Schedules) event(schedule *velerov1.Schedule, kind, reason, format string, args ...any) {
	if r.Events != nil {
		r.Events.Eventf(schedule, nil, kind, reason, "Rehearse", format, args...)
	}
}

func started(b *velerov1.Backup) time.Time {
	if b.Status.StartTimestamp == nil {
		return time.Time{}
	}
	return b.Status.StartTimestamp.Time
}
