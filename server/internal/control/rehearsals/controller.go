package rehearsals

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// Controller takes rehearsals through their phases.
type Controller struct {
	Vouched
	StoreOutage time.Duration // how long a report waits for its object store
	Executor    *hook.Executor
	Proofs      Proofs
	Settings    config.Rehearsals // with defaults
	Metrics     *metrics.Metrics
	// Sign returns the file of a report: signed, if the server has a key that can be used.
	Sign func(ctx context.Context, b *velerov1.Backup, report []byte) []byte
	Log  hclog.Logger
	Now  func() time.Time

	turns sync.Mutex // one rehearsal at a time gets its turn
}

const (
	// pollPause is the time between two looks at what a rehearsal waits for.
	pollPause = 2 * time.Second
	// keepDone is how long the Restore of a rehearsal is kept after its end.
	keepDone = time.Hour
)

// Reconcile takes the next step of one rehearsal.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	restore := new(velerov1.Restore)
	if err := r.Get(ctx, req.NamespacedName, restore); err == nil && !velerov1.IsRehearsal(restore) {
		return ctrl.Result{}, nil
	}
	// The cache may not have the last write yet, and each step depends on it.
	restore = new(velerov1.Restore)
	if err := r.Live.Get(ctx, req.NamespacedName, restore); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !velerov1.IsRehearsal(restore) { // another one has the name now
		return ctrl.Result{}, nil
	}
	again, err := r.step(ctx, restore)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // the change causes another call
		return ctrl.Result{RequeueAfter: pollPause}, nil
	}
	return again, err
}

func (r *Controller) step(ctx context.Context, restore *velerov1.Restore) (ctrl.Result, error) {
	phase := phaseOf(restore)
	if restore.DeletionTimestamp != nil {
		if !controllerutil.ContainsFinalizer(restore, velerov1.RehearsalFinalizer) {
			return ctrl.Result{}, nil
		}
		s, _ := stateOf(restore) // what was made is found by its labels, and carries proofs
		return r.clean(ctx, restore, s)
	}
	s, err := stateOf(restore)
	if err != nil && phase != velerov1.RehearsalDone {
		s.Problems = append(s.Problems, err.Error())
		return again(r.conclude(ctx, restore, s))
	}
	if velerov1.CancelRequested(restore) && !s.Cancelled && !s.Overdue && phase != velerov1.RehearsalCleaning &&
		phase != velerov1.RehearsalDone && (phase != velerov1.RehearsalRestoring || ended(restore)) {
		s.Cancelled = true
		return again(r.conclude(ctx, restore, s))
	}
	switch phase {
	case velerov1.RehearsalRequested:
		return r.admit(ctx, restore, s)
	case velerov1.RehearsalPreparing:
		return r.prepare(ctx, restore, s)
	case velerov1.RehearsalRestoring:
		return r.restored(ctx, restore, s)
	case velerov1.RehearsalWaiting:
		return r.wait(ctx, restore, s)
	case velerov1.RehearsalChecking:
		return again(r.conclude(ctx, restore, s))
	case velerov1.RehearsalCleaning:
		return r.clean(ctx, restore, s)
	case velerov1.RehearsalDone:
		return r.expire(ctx, restore, s)
	}
	r.Log.Warn("the rehearsal has an unknown phase, which another version of the server may have written", "restore",
		restore.Name, "phase", phase)
	return ctrl.Result{}, nil
}

// again returns what reconciles a rehearsal again after a step.
func again(err error) (ctrl.Result, error) {
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: time.Millisecond}, nil
}

// ended reports whether the restore of a rehearsal has ended, or has never begun.
func ended(restore *velerov1.Restore) bool { return run.RestorePhase(restore).Terminal() }

// admit gives a rehearsal its turn, and names its namespaces.
func (r *Controller) admit(ctx context.Context, restore *velerov1.Restore, s state) (ctrl.Result, error) {
	r.turns.Lock()
	defer r.turns.Unlock()
	var all velerov1.RestoreList
	if err := r.Live.List(ctx, &all, client.InNamespace(r.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the rehearsals: %w", err)
	}
	before := ""
	active := 0
	for i := range all.Items {
		other := &all.Items[i]
		switch phaseOf(other) {
		case "", velerov1.RehearsalRequested, velerov1.RehearsalDone:
		default:
			active++
			before = other.Name
		}
	}
	if active >= r.Settings.Concurrent {
		err := r.note(ctx, restore, "its turn, because "+fmt.Sprintf("restores.rehearsals.concurrent is %d",
			r.Settings.Concurrent), "rehearsal "+before+" is at work", restore.CreationTimestamp.Time)
		return ctrl.Result{RequeueAfter: pollPause}, err
	}
	s.Admitted = r.Now()
	problem, err := r.plan(ctx, restore, &s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != "" {
		s.Problems = append(s.Problems, problem)
		return again(r.conclude(ctx, restore, s))
	}
	return again(r.advance(ctx, restore, velerov1.RehearsalPreparing, s, func(restore *velerov1.Restore) {
		controllerutil.AddFinalizer(restore, velerov1.RehearsalFinalizer)
		restore.Status.ValidationErrors = []string{"rehearsal: its namespaces are prepared"}
	}))
}

// restored goes on when the restore of a rehearsal has ended.
func (r *Controller) restored(ctx context.Context, restore *velerov1.Restore, s state) (ctrl.Result, error) {
	if !ended(restore) { // each phase of the restore is an event
		left := s.Admitted.Add(r.Settings.Deadline.Std()).Sub(r.Now())
		if left > 0 || velerov1.CancelRequested(restore) {
			return ctrl.Result{RequeueAfter: max(left, 0)}, nil
		}
		return again(r.stop(ctx, restore, s))
	}
	s.Restored = r.Now()
	switch phase := run.RestorePhase(restore); phase {
	case velerov1.RestorePhaseCompleted, velerov1.RestorePhasePartiallyFailed:
		return again(r.advance(ctx, restore, velerov1.RehearsalWaiting, s, nil))
	case velerov1.RestorePhaseFailedValidation:
		for _, problem := range restore.Status.ValidationErrors {
			s.Problems = append(s.Problems, "the restore failed validation: "+problem)
		}
	default:
		s.Problems = append(s.Problems, fmt.Sprintf("the restore is %s: %s", phase, restore.Status.FailureReason))
	}
	return again(r.conclude(ctx, restore, s))
}

// stop ends the restore of a rehearsal whose time is over.
func (r *Controller) stop(ctx context.Context, restore *velerov1.Restore, s state) error {
	s.Overdue = true
	s.Problems = append(s.Problems, fmt.Sprintf("the restore had not ended after %s (restores.rehearsals.deadline)",
		r.Settings.Deadline.Std()))
	return r.advance(ctx, restore, velerov1.RehearsalRestoring, s, func(restore *velerov1.Restore) {
		restore.Annotations[velerov1.CancelAnnotation] = "true"
	})
}

// wait waits until the workloads are ready, or the time is over.
func (r *Controller) wait(ctx context.Context, restore *velerov1.Restore, s state) (ctrl.Result, error) {
	limit, _ := timeoutOf(restore, r.Settings.Timeout.Std()) // admit has checked it
	found, err := r.look(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if found.notReady.Count > 0 && r.Now().Before(s.Restored.Add(limit)) {
		first := found.notReady.Items[0]
		what := fmt.Sprintf("%d workloads to be ready, for up to %s; the first is %s", found.notReady.Count, limit, first)
		if err := r.note(ctx, restore, what, first.Reason, s.Restored); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: min(pollPause, limit)}, nil
	}
	s.Settled = r.Now()
	return again(r.advance(ctx, restore, velerov1.RehearsalChecking, s, nil))
}

// conclude makes and stores the report, and begins to clean up. It can be repeated: a report that is stored stays.
func (r *Controller) conclude(ctx context.Context, restore *velerov1.Restore, s state) error {
	summary, err := r.report(ctx, restore, &s)
	if err != nil {
		return err
	}
	if err := r.tell(ctx, restore, summary); err != nil {
		return err
	}
	r.Metrics.RehearsalEnded(restore.Labels[velerov1.ScheduleNameLabel], summary.Result)
	r.Log.Info("the rehearsal has ended", "restore", restore.Name, "backup", restore.Spec.BackupName, "result",
		summary.Result, "text", summary.Text)
	s.Cleaning = r.Now()
	return r.advance(ctx, restore, velerov1.RehearsalCleaning, s, func(restore *velerov1.Restore) {
		restore.Annotations[velerov1.RehearsalsAnnotation] = summary.AddTo("")
	})
}

// tell adds the result of a rehearsal to its backup, if that still exists.
func (r *Controller) tell(ctx context.Context, restore *velerov1.Restore, summary rehearsal.Summary) error {
	var backup velerov1.Backup
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.BackupName}, &backup)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get backup %s: %w", restore.Spec.BackupName, err)
	}
	before := backup.DeepCopy()
	if backup.Annotations == nil {
		backup.Annotations = map[string]string{}
	}
	backup.Annotations[velerov1.RehearsalsAnnotation] = summary.AddTo(backup.Annotations[velerov1.RehearsalsAnnotation])
	err = r.Patch(ctx, &backup, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("write the result of the rehearsal to backup %s: %w", backup.Name, err)
	}
	return nil
}

// expire deletes the Restore of a rehearsal some time after its end.
func (r *Controller) expire(ctx context.Context, restore *velerov1.Restore, s state) (ctrl.Result, error) {
	end := s.Cleaning
	if end.IsZero() {
		end = restore.CreationTimestamp.Time
	}
	if left := end.Add(keepDone).Sub(r.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, restore, client.Preconditions{UID: new(restore.GetUID())}))
}
