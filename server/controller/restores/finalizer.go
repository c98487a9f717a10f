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
	"github.com/cleat-dev/cleat/server/controller/metrics"
	"github.com/cleat-dev/cleat/server/run"
)

// Finalizer takes a restore from the end of its run to the final phase and deletes the files of a restore that is deleted.
// Each step can be repeated.
type Finalizer struct {
	*run.Cluster
	Runs    *run.Runs
	Stores  run.Stores
	Metrics *metrics.Metrics
	Log     hclog.Logger
	Now     func() time.Time
}

// stillRunning is the time until the next look at a run that was stopped and has not ended yet.
const stillRunning = time.Second

// Reconcile finalizes one restore or cleans up after it.
func (r *Finalizer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	restore := new(velerov1.Restore)
	if err := r.Get(ctx, req.NamespacedName, restore); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	log := r.Log.With("restore", req.String())
	if restore.DeletionTimestamp != nil {
		return r.remove(ctx, restore, log)
	}
	var err error
	switch run.RestorePhase(restore) {
	case velerov1.RestorePhaseFinalizing:
		err = r.finalize(ctx, restore, velerov1.RestorePhaseCompleted, log)
	case velerov1.RestorePhaseFinalizingPartiallyFailed:
		err = r.finalize(ctx, restore, velerov1.RestorePhasePartiallyFailed, log)
	default:
	}
	if errors.Is(err, run.ErrNotFound) || errors.Is(err, run.ErrPhaseChanged) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// finalize writes the final phase.
func (r *Finalizer) finalize(ctx context.Context, restore *velerov1.Restore, final velerov1.RestorePhase, log hclog.Logger) error {
	err := r.AdvanceRestore(ctx, restore, func(restore *velerov1.Restore) error {
		restore.Status.Phase = final
		restore.Status.CompletionTimestamp = run.Timestamp(r.Now())
		return nil
	})
	if err == nil {
		log.Info("the restore has ended", "phase", restore.Status.Phase)
		r.Metrics.RestoreEnded(restore)
	}
	return err
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
	if err := r.removeFiles(ctx, restore, log); err != nil {
		return ctrl.Result{}, fmt.Errorf("delete the files of the deleted restore: %w", err)
	}
	before := restore.DeepCopy()
	controllerutil.RemoveFinalizer(restore, restoreFinalizer)
	err := r.Patch(ctx, restore, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// removeFiles deletes the files of a restore from the location of its backup. If the backup or the location was deleted, the
// files cannot be found and stay.
func (r *Finalizer) removeFiles(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) error {
	if restore.Spec.BackupName == "" {
		return nil
	}
	var backup velerov1.Backup
	err := r.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.BackupName}, &backup)
	if apierrors.IsNotFound(err) {
		log.Warn("the backup does not exist any more; the files of the restore, if any, stay in the object storage", "backup", restore.Spec.BackupName)
		return nil
	}
	if err != nil {
		return fmt.Errorf("get backup %s: %w", restore.Spec.BackupName, err)
	}
	location, err := r.GetLocation(ctx, backup.Spec.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) {
		log.Warn("the backup storage location does not exist any more; the files of the restore, if any, stay in the object storage", "storageLocation", backup.Spec.StorageLocation)
		return nil
	}
	if err != nil {
		return err
	}
	if problem := run.LocationProblem(location); problem != "" {
		return errors.New(problem)
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return fmt.Errorf("open backup storage location %s: %w", location.Name, err)
	}
	return objects.DeleteRestore(ctx, restore.Name)
}
