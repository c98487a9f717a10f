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
	"github.com/cleat-dev/cleat/server/controller/metrics"
	"github.com/cleat-dev/cleat/server/queue"
	"github.com/cleat-dev/cleat/server/run"
)

// Schedules makes a Backup of each Schedule whenever it is due, if no other one of the same schedule is on its way.
//
// A backup is named after the moment at which it was due, so that a moment has one backup, whoever makes it and how often
// it is tried. Of moments that were missed, only the last counts.
type Controller struct {
	*run.Cluster
	SkipImmediately bool // for schedules that do not say it
	Events          events.EventRecorder
	Metrics         *metrics.Metrics
	Log             hclog.Logger
	Now             func() time.Time
}

const (
	// scheduleLook is the longest time until a schedule is looked at again: a clock that is set forward does not wake anyone.
	scheduleLook = time.Minute

	// clockSlack is how far the clocks of two servers may be apart. What was done later than that from now was done by a
	// clock that has been set back since.
	clockSlack = time.Minute
)

// Reconcile looks after one schedule, and asks to be called again when it is due.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	schedule := new(velerov1.Schedule)
	err := r.Get(ctx, req.NamespacedName, schedule)
	if apierrors.IsNotFound(err) {
		r.Metrics.ScheduleGone(req.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get the schedule: %w", err)
	}
	v := r.look(schedule)
	if v.acts() {
		// The cache may not know yet what this server, or the one before it, has done.
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

// scheduleView is what there is to do about a schedule.
type scheduleView struct {
	before *velerov1.Schedule
	after  *velerov1.Schedule // with what the server has to write, but for what comes of a backup that is due
	now    time.Time
	due    time.Time     // zero when no backup is due
	wait   time.Duration // until the next look, at least; 0 for until it is changed

	setBack  bool          // the clock was
	interval time.Duration // between the next two moments; 0 for a schedule that is refused
}

func (v *scheduleView) acts() bool {
	return !v.due.IsZero() || !equality.Semantic.DeepEqual(v.before, v.after)
}

// look finds out what there is to do.
func (r *Controller) look(schedule *velerov1.Schedule) *scheduleView {
	now := r.Now()
	v := &scheduleView{before: schedule, after: schedule.DeepCopy(), now: now}
	if schedule.DeletionTimestamp != nil {
		return v
	}
	spec, status := &v.after.Spec, &v.after.Status
	times, err := parseTimetable(spec.Schedule, now)
	if err == nil && len(schedule.Name) > maxScheduleName {
		err = fmt.Errorf("the name of the schedule has %d characters, want at most %d, as backups are named after it", len(schedule.Name), maxScheduleName)
	}
	if err != nil {
		status.Phase, status.ValidationErrors = velerov1.SchedulePhaseFailedValidation, []string{err.Error()}
		return v
	}
	status.Phase, status.ValidationErrors = velerov1.SchedulePhaseEnabled, nil
	next := times.Next(now)
	v.interval = times.Next(next).Sub(next)
	if spec.Paused {
		return v // what skipImmediately means is to be done when it goes on
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
	v.due = times.last(since, now)
	v.wait = scheduleLook
	if next := times.Next(since.In(now.Location())); !next.IsZero() {
		v.wait = min(scheduleLook, max(next.Sub(now), time.Millisecond))
	}
	return v
}

// handledUntil is the moment before which nothing is due any more.
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

// act makes the backup that is due, if there is one, and writes the new state of the schedule.
func (r *Controller) act(ctx context.Context, v *scheduleView) error {
	log := r.Log.With("schedule", v.after.Namespace+"/"+v.after.Name)
	if v.setBack {
		log.Warn("the schedule did something in the future; the clock was set back, so it goes on from now", "lastBackup", v.before.Status.LastBackup, "lastSkipped", v.before.Status.LastSkipped)
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

// backup makes the backup that is due, or skips it because another one of the schedule waits or runs. As in Velero, one
// that has done its work and waits for operations of plugins, or to be finalized, does not count: it has no place in the
// queue either.
func (r *Controller) backup(ctx context.Context, v *scheduleView, log hclog.Logger) error {
	b := NewBackup(v.after, v.due)
	log = log.With("backup", b.Name, "due", v.due)
	var list velerov1.BackupList
	// Read from the API server: two of a schedule that comes often may be less apart than the cache is behind.
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
		log.Info("the backup that is due is skipped, as another one of the schedule has not ended", "other", other.Name, "phase", run.BackupPhase(other))
		r.Events.Eventf(v.before, other, corev1.EventTypeWarning, "Skipped", "Backup", "skipped the backup due at %s: backup %s of this schedule is %s",
			v.due.UTC().Format(time.RFC3339), other.Name, run.BackupPhase(other))
		return nil
	}
	err = r.Create(ctx, b)
	switch {
	case apierrors.IsAlreadyExists(err):
		log.Info("the backup that is due exists")
	case err != nil:
		r.Events.Eventf(v.before, nil, corev1.EventTypeWarning, "NotCreated", "Backup", "backup %s could not be created: %v", b.Name, err)
		return fmt.Errorf("create backup %s: %w", b.Name, err)
	default:
		log.Info("created the backup that is due")
		r.Events.Eventf(v.before, b, corev1.EventTypeNormal, "Created", "Backup", "created backup %s", b.Name)
	}
	v.after.Status.LastBackup = run.Timestamp(v.now)
	return nil
}
