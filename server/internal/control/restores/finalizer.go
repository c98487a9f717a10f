package restores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

// Finalizer takes a restore from the end of its run to the final phase and deletes the files of a restore that is
// deleted. It waits for the hooks of restored pods. Each step can be repeated.
type Finalizer struct {
	*run.Cluster
	Runs   *run.Runs
	Stores run.Stores
	Hooks  *hook.Restores
	// Volumes has no CSI snapshots if the server does not restore them.
	Volumes *volumes.Hub
	// ResourceTimeout bounds the wait for volumes.
	ResourceTimeout time.Duration
	// LogOptions are for the hooks that a former server has left.
	LogOptions run.LogOptions
	// StoreOutage is how long a restore waits for an object store that answers but refuses its last files.
	StoreOutage time.Duration
	Logs        *run.Logs
	Metrics     *metrics.Metrics
	Log         hclog.Logger
	Now         func() time.Time

	waits finalWaits
	Trust Trust
}

// hooksPause is the time until the next look at the hooks and volumes of a restore that waits for nothing else.
const hooksPause = time.Second

// stillRunning is the time until the next look at a run that was stopped and has not ended yet.
const stillRunning = time.Second

// Reconcile finalizes one restore or cleans up after it.
func (r *Finalizer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	restore := new(velerov1.Restore)
	err := r.Get(ctx, req.NamespacedName, restore)
	if err == nil && isUnfinished(restore) { // the cache may not have the end yet, and hooks must not be resumed after it
		restore = new(velerov1.Restore)
		err = r.Live.Get(ctx, req.NamespacedName, restore)
	}
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	log := r.Log.With("restore", req.String())
	if restore.DeletionTimestamp != nil {
		return r.remove(ctx, restore, log)
	}
	var again ctrl.Result
	switch run.RestorePhase(restore) {
	case velerov1.RestorePhaseWaitingForPluginOperations, velerov1.RestorePhaseWaitingForPluginOperationsPartiallyFailed:
		_, err = r.hooksOf(ctx, restore)
	case velerov1.RestorePhaseFinalizing:
		again, err = r.finalize(ctx, restore, velerov1.RestorePhaseCompleted, log)
	case velerov1.RestorePhaseFinalizingPartiallyFailed:
		again, err = r.finalize(ctx, restore, velerov1.RestorePhasePartiallyFailed, log)
	default:
	}
	if run.Superseded(err) {
		return ctrl.Result{}, nil
	}
	return again, err
}

// isUnfinished reports whether the run of a restore has ended, but not the restore.
func isUnfinished(restore *velerov1.Restore) bool {
	switch run.RestorePhase(restore) {
	case velerov1.RestorePhaseWaitingForPluginOperations, velerov1.RestorePhaseWaitingForPluginOperationsPartiallyFailed,
		velerov1.RestorePhaseFinalizing, velerov1.RestorePhaseFinalizingPartiallyFailed:
		return true
	default:
		return false
	}
}

// finalize waits for the volumes and the hooks of the restore, and then writes the final phase.
func (r *Finalizer) finalize(
	ctx context.Context, restore *velerov1.Restore, final velerov1.RestorePhase, log hclog.Logger,
) (ctrl.Result, error) {
	ctx = pluginhost.ForRun(ctx, string(restore.UID))
	hooks, err := r.hooksOf(ctx, restore)
	if err != nil {
		return ctrl.Result{}, err
	}
	ended, settled, err := r.settleVolumes(ctx, restore, log)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("wait for the restored volumes: %w", err)
	}
	if !ended {
		return r.wait(ctx, restore, hooks, log)
	}
	var refused error // why the last files are not stored
	if err := r.storeResults(ctx, restore, settled, log); err != nil {
		refused = fmt.Errorf("store what became of the restored volumes: %w", err)
		if err := r.endAnyway(ctx, restore, refused); err != nil {
			return ctrl.Result{}, err
		}
	}
	var outcome hook.Outcome
	if hooks != nil {
		var ended bool
		if outcome, ended = r.Hooks.Outcome(hooks); !ended {
			return r.wait(ctx, restore, hooks, log)
		}
		if err := r.storeHooks(ctx, restore, hooks, outcome, log); err != nil {
			refused = fmt.Errorf("store what became of the hooks: %w", err)
			if err := r.endAnyway(ctx, restore, refused); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	if err := r.storeLate(ctx, restore, log); err != nil {
		refused = fmt.Errorf("complete the log of the restore: %w", err)
		if err := r.endAnyway(ctx, restore, refused); err != nil {
			return ctrl.Result{}, err
		}
	}
	err = r.AdvanceRestore(ctx, restore, func(restore *velerov1.Restore) error {
		restore.Status.Phase = final
		if failed := outcome.Errors.Count() + settled.Errors.Count(); failed > 0 {
			restore.Status.Phase = velerov1.RestorePhasePartiallyFailed
			restore.Status.Errors += failed
		}
		restore.Status.Warnings += settled.Warnings.Count()
		if refused != nil {
			restore.Status.Phase, restore.Status.FailureReason = velerov1.RestorePhasePartiallyFailed, refused.Error()
		}
		restore.Status.HookStatus = &outcome.Status
		restore.Status.CompletionTimestamp = run.Timestamp(r.Now())
		return nil
	})
	if err == nil || run.Superseded(err) {
		r.Logs.End(restore.UID)
	}
	if err == nil {
		forgetHooks(r.Hooks, restore, log)
		r.waits.forget(restore.UID)
		log.Info("the restore has ended", "phase", restore.Status.Phase)
		r.Metrics.RestoreEnded(restore)
	}
	return ctrl.Result{}, err
}

// settleVolumes waits for the volumes of the restore. It can be repeated until it reports that it has ended, with the
// errors and warnings.
func (r *Finalizer) settleVolumes(
	ctx context.Context, restore *velerov1.Restore, log hclog.Logger,
) (ended bool, found results.Results, err error) {
	final := r.waits.of(restore.UID, log, r.Now())
	if final.settled {
		return true, final.volumes, nil
	}
	state, err := r.Volumes.SettleRestored(ctx, volumes.RestoreEnd{
		Restore: restore, Patience: r.ResourceTimeout,
		Overdue: r.Now().Sub(final.since) > r.ResourceTimeout || velerov1.CancelRequested(restore),
		Open:    func(ctx context.Context) (*store.Store, error) { return r.trusted(ctx, restore, log) },
	}, log)
	if err != nil {
		return false, found, err
	}
	final.forClaims(state.Awaited)
	final.settled, final.volumes = state.Ended, results.Results{Errors: state.Failed, Warnings: state.Lost}
	return state.Ended, final.volumes, nil
}

// trusted returns the location for the files of the backup of a restore; see Trust. It is nil if the backup was changed
// in the meantime.
func (r *Finalizer) trusted(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) (*store.Store, error) {
	objects, err := r.files(ctx, restore, log)
	if err != nil || objects == nil || !r.Trust.demands(restore) {
		return objects, err
	}
	backup := new(velerov1.Backup)
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.BackupName}, backup)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	backup.Name = restore.Spec.BackupName // if it was deleted
	guarded, isRefused, err := r.Trust.guarded(ctx, restore, objects, backup, r.LogOptions.Dir)
	if isRefused {
		log.Warn("the restored volumes do not get what only the backup knows of them", "error", err)
		return nil, nil
	}
	return guarded, err
}

// storeResults adds errors and warnings to the stored results. It can be repeated.
func (r *Finalizer) storeResults(
	ctx context.Context, restore *velerov1.Restore, more results.Results, log hclog.Logger,
) error {
	if more.Errors.Count()+more.Warnings.Count() == 0 {
		return nil
	}
	objects, err := r.files(ctx, restore, log)
	if err != nil || objects == nil {
		return err
	}
	return addResults(ctx, objects, restore.Name, more, log)
}

// storeLate adds what was logged since the log was stored.
func (r *Finalizer) storeLate(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) error {
	late := r.Logs.Late(operation.OfRestore, restore)
	if late.Due().IsZero() {
		return nil
	}
	objects, err := r.files(ctx, restore, log)
	if err != nil || objects == nil {
		return err
	}
	return run.StoreLate(ctx, late, restore.Name, r.LogOptions.Dir, objects.AppendRestoreLog)
}

// endAnyway returns nil if a restore ends although failure keeps its last files from the object storage, which has
// refused them for too long. Otherwise it returns failure, for another attempt.
func (r *Finalizer) endAnyway(ctx context.Context, restore *velerov1.Restore, failure error) error {
	var backup velerov1.Backup
	if err := r.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.BackupName},
		&backup); err != nil {
		return errors.Join(failure, err) // without a backup there is nothing to store
	}
	end, err := r.GiveUp(ctx, restore, r.Ask(r.Stores, backup.Spec.StorageLocation), failure, r.StoreOutage, r.Now())
	if err != nil || !end {
		return errors.Join(failure, err)
	}
	return nil
}

// remove stops the run of a deleted restore, deletes its files and then removes the finalizer.
func (r *Finalizer) remove(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(restore, restoreFinalizer) {
		return ctrl.Result{}, nil
	}
	if r.Runs.IsRunning(restore.UID) {
		r.Runs.Stop(restore.UID, run.ErrDeleted)
		return ctrl.Result{RequeueAfter: stillRunning}, nil
	}
	forgetHooks(r.Hooks, restore, log)
	r.waits.forget(restore.UID)
	r.Logs.End(restore.UID)
	if err := r.removeFiles(ctx, restore, log); err != nil {
		failure := fmt.Errorf("delete the files of the deleted restore: %w", err)
		return ctrl.Result{}, errors.Join(failure, client.IgnoreNotFound(r.Note(ctx, restore, "the object store to delete "+
			"its files", failure, r.Now())))
	}
	before := restore.DeepCopy()
	controllerutil.RemoveFinalizer(restore, restoreFinalizer)
	err := r.Patch(ctx, restore, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// removeFiles deletes the files of a restore from the location of its backup. If the backup or the location was
// deleted, the files cannot be found and stay, as they do in a read-only location.
func (r *Finalizer) removeFiles(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) error {
	objects, err := r.files(ctx, restore, log)
	if err != nil || objects == nil {
		return err
	}
	return objects.DeleteRestore(ctx, restore.Name)
}

// files opens the location of the backup of a restore. It returns nil if that cannot be found any more.
func (r *Finalizer) files(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) (*store.Store, error) {
	if restore.Spec.BackupName == "" {
		return nil, nil
	}
	var backup velerov1.Backup
	err := r.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.BackupName}, &backup)
	if apierrors.IsNotFound(err) {
		log.Warn("the backup does not exist any more; the files of the restore, if any, stay in the object storage", "backup",
			restore.Spec.BackupName)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get backup %s: %w", restore.Spec.BackupName, err)
	}
	location, err := r.GetLocation(ctx, backup.Spec.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) {
		log.Warn("the backup storage location does not exist any more; the files of the restore, if any, stay in the "+
			"object storage", "storageLocation", backup.Spec.StorageLocation)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if run.ReadOnly(location) {
		log.Warn("the backup storage location is read-only; the files of the restore stay in the object storage",
			"storageLocation", location.Name)
		return nil, nil
	}
	if problem := run.LocationProblem(location); problem != "" {
		return nil, errors.New(problem)
	}
	return r.PatientAtEnd(r.Stores, restore, r.StoreOutage, log, r.Now).Open(ctx, location)
}
