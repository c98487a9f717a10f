package schedules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/server/internal/spec/timetable"
)

// Controller creates a Backup when a Schedule is due, unless an earlier one of the same schedule is unfinished.
//
// The name of a backup contains the time at which it is due, so that repeated attempts and several servers create only
// one. If several times were missed, only the last one counts.
type Controller struct {
	*run.Cluster
	SkipImmediately bool // the default of spec.skipImmediately
	Events          events.EventRecorder
	Metrics         *metrics.Metrics
	Log             hclog.Logger
	Now             func() time.Time
}

const (
	// scheduleLook is the longest time between two reconciliations of a schedule: setting the clock forward causes no
	// event.
	scheduleLook = time.Minute

	// clockSlack is the largest difference between the clocks of two servers. A time in the status that is farther in the
	// future means that the clock was set back.
	clockSlack = time.Minute
)

// Reconcile creates the backup that is due and requeues the schedule for the next time.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	schedule := new(velerov1.Schedule)
	err := r.Get(ctx, req.NamespacedName, schedule)
	if apierrors.IsNotFound(err) {
		r.Metrics.ScheduleDeleted(req.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get the schedule: %w", err)
	}
	v := r.look(schedule)
	if v.acts() {
		// The last write of this server or of a former one may not be in the cache yet.
		if err := r.Live.Get(ctx, req.NamespacedName, schedule); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		v = r.look(schedule)
	}
	if v.acts() {
		if err := r.act(ctx, v); err != nil {
			return ctrl.Result{}, err
		}
		v = r.look(v.after)
	}
	r.Metrics.ScheduleSeen(req.Name, v.interval)
	return ctrl.Result{RequeueAfter: v.wait}, nil
}

// scheduleView is the next step of a schedule.
type scheduleView struct {
	before *velerov1.Schedule
	after  *velerov1.Schedule // with the changes to write, except those for a backup that is due
	now    time.Time
	due    time.Time     // zero if no backup is due
	wait   time.Duration // until the next reconciliation; 0 until the schedule changes

	setBack  bool          // the clock was set back
	interval time.Duration // between the next two times; 0 for an invalid schedule
}

func (v *scheduleView) acts() bool {
	return !v.due.IsZero() || !equality.Semantic.DeepEqual(v.before, v.after)
}

// look returns the next step of a schedule.
func (r *Controller) look(schedule *velerov1.Schedule) *scheduleView {
	now := r.Now()
	v := &scheduleView{before: schedule, after: schedule.DeepCopy(), now: now}
	if schedule.DeletionTimestamp != nil {
		return v
	}
	spec, status := &v.after.Spec, &v.after.Status
	times, err := timetable.Parse(spec.Schedule, now)
	if err == nil {
		err = CheckName(schedule.Name)
	}
	if err != nil {
		status.Phase, status.ValidationErrors = velerov1.SchedulePhaseFailedValidation, []string{err.Error()}
		return v
	}
	status.Phase, status.ValidationErrors = velerov1.SchedulePhaseEnabled, nil
	next := times.Next(now)
	v.interval = times.Next(next).Sub(next)
	if spec.Paused {
		return v // skipImmediately takes effect when the schedule is resumed
	}
	for _, t := range []**metav1.Time{&status.LastBackup, &status.LastSkipped} {
		if *t != nil && (*t).After(now.Add(clockSlack)) {
			*t, v.setBack = run.Timestamp(now), true
		}
	}
	if spec.SkipImmediately == nil {
		spec.SkipImmediately = new(r.SkipImmediately)
	}
	if *spec.SkipImmediately {
		spec.SkipImmediately, status.LastSkipped = new(false), run.Timestamp(now)
	}
	since := handledUntil(v.after)
	v.due = times.Last(since, now)
	v.wait = scheduleLook
	if next := times.Next(since.In(now.Location())); !next.IsZero() {
		v.wait = min(scheduleLook, max(next.Sub(now), time.Millisecond))
	}
	return v
}

// handledUntil returns the time up to which all backups were created or skipped.
func handledUntil(s *velerov1.Schedule) time.Time {
	switch backup, skipped := s.Status.LastBackup, s.Status.LastSkipped; {
	case backup.IsZero() && skipped.IsZero():
		return s.CreationTimestamp.Time
	case backup.IsZero():
		return skipped.Time
	case !skipped.IsZero() && skipped.After(backup.Time):
		return skipped.Time
	default:
		return backup.Time
	}
}

// act creates the backup that is due, if there is one, and writes the new state of the schedule.
func (r *Controller) act(ctx context.Context, v *scheduleView) error {
	log := r.Log.With("schedule", v.after.Namespace+"/"+v.after.Name)
	if v.setBack {
		log.Warn("the status of the schedule is in the future, so the clock was set back; the schedule continues from now",
			"lastBackup", v.before.Status.LastBackup, "lastSkipped", v.before.Status.LastSkipped)
	}
	if v.after.Status.Phase == velerov1.SchedulePhaseFailedValidation {
		log.Warn("the schedule failed validation", "errors", v.after.Status.ValidationErrors)
	}
	if !v.due.IsZero() {
		if err := r.backup(ctx, v, log); err != nil {
			return err
		}
	}
	err := r.Patch(ctx, v.after, client.MergeFromWithOptions(v.before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the state of the schedule: %w", err)
	}
	return nil
}

// backup creates the backup that is due, or skips it because an earlier backup of the schedule waits or runs. As in
// Velero, a backup that waits for operations of plugins or for its finalizer does not count. It has no slot either.
func (r *Controller) backup(ctx context.Context, v *scheduleView, log hclog.Logger) error {
	b := NewBackup(v.after, v.due)
	log = log.With("backup", b.Name, "due", v.due)
	var list velerov1.BackupList
	// The last backup of a schedule with short intervals may not be in the cache yet.
	err := r.Live.List(ctx, &list, client.InNamespace(b.Namespace),
		client.MatchingLabels{velerov1.ScheduleNameLabel: b.Labels[velerov1.ScheduleNameLabel]})
	if err != nil {
		return fmt.Errorf("list the backups of the schedule: %w", err)
	}
	same := func(other velerov1.Backup) bool { return other.Name == b.Name }
	unfinished := func(other velerov1.Backup) bool { return queue.InLine(&other) }
	if i := slices.IndexFunc(list.Items, unfinished); i >= 0 && !slices.ContainsFunc(list.Items, same) {
		other := &list.Items[i]
		v.after.Status.LastSkipped = run.Timestamp(v.now)
		log.Info("skipped the backup that is due, because another one of the schedule has not ended", "other", other.Name,
			"phase", run.BackupPhase(other))
		r.Events.Eventf(v.before, other, corev1.EventTypeWarning, "Skipped", "Backup",
			"skipped the backup due at %s: backup %s of this schedule is %s",
			v.due.UTC().Format(time.RFC3339), other.Name, run.BackupPhase(other))
		return nil
	}
	object, err := r.withUnknown(ctx, v.before, b)
	if err != nil {
		return err
	}
	err = r.Create(ctx, object)
	switch {
	case apierrors.IsAlreadyExists(err):
		log.Info("the backup that is due exists already")
	case err != nil:
		r.Events.Eventf(v.before, nil, corev1.EventTypeWarning, "NotCreated", "Backup", "backup %s could not be created: %v",
			b.Name, err)
		return fmt.Errorf("create backup %s: %w", b.Name, err)
	default:
		log.Info("created the backup that is due")
		r.Events.Eventf(v.before, object, corev1.EventTypeNormal, "Created", "Backup", "created backup %s", b.Name)
	}
	v.after.Status.LastBackup = run.Timestamp(v.now)
	return nil
}
