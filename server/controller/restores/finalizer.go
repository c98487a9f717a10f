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

// RestoreFinalizer brings a restore whose run has ended to its final phase, and removes the files
// of one that is deleted. All it does may be done twice.
type Finalizer struct {
	*run.Cluster
	Runs    *run.Runs
	Stores  run.Stores
	Metrics *metrics.Metrics
	Log     hclog.Logger
	Now     func() time.Time
}

// stillRunning is when to look again after a restore that was asked to end.
const stillRunning = time.Second

// Reconcile takes up one restore.
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

// finalize writes the final phase. Volumes and hooks will have their work here.
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

// remove ends a restore that is deleted: its run, its files in the bucket, then its finalizer.
func (r *Finalizer) remove(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(restore, restoreFinalizer) {
		return ctrl.Result{}, nil
	}
	if r.Runs.IsRunning(restore.UID) {
		r.Runs.Stop(restore.UID, run.ErrDeleted)
		return ctrl.Result{RequeueAfter: stillRunning}, nil
	}
	if err := r.removeFiles(ctx, restore, log); err != nil {
		return ctrl.Result{}, fmt.Errorf("remove the files of the deleted restore: %w", err)
	}
	before := restore.DeepCopy()
	controllerutil.RemoveFinalizer(restore, restoreFinalizer)
	err := r.Patch(ctx, restore, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// removeFiles removes the files of a restore from the bucket of its backup. Where backup or
// location are gone, nobody can tell where they are, and they are left.
func (r *Finalizer) removeFiles(ctx context.Context, restore *velerov1.Restore, log hclog.Logger) error {
	if restore.Spec.BackupName == "" {
		return nil
	}
	var backup velerov1.Backup
	err := r.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.BackupName}, &backup)
	if apierrors.IsNotFound(err) {
		log.Warn("the backup is gone; the files of the restore, if any, are left in the bucket", "backup", restore.Spec.BackupName)
		return nil
	}
	if err != nil {
		return fmt.Errorf("get backup %s: %w", restore.Spec.BackupName, err)
	}
	location, err := r.GetLocation(ctx, backup.Spec.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) {
		log.Warn("the backup storage location is gone; the files of the restore, if any, are left in the bucket", "storageLocation", backup.Spec.StorageLocation)
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
