package operations

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
)

// Restores moves restores from WaitingForPluginOperations to Finalizing when all their operations have ended.
type Restores struct{ *Common }

// Reconcile processes one waiting restore. It can be repeated.
func (r *Restores) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var restore velerov1.Restore
	if err := r.Get(ctx, req.NamespacedName, &restore); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	phase := run.RestorePhase(&restore)
	if restore.DeletionTimestamp != nil || phase != velerov1.RestorePhaseWaitingForPluginOperations &&
		phase != velerov1.RestorePhaseWaitingForPluginOperationsPartiallyFailed {
		return ctrl.Result{}, nil
	}
	again, err := r.reconcile(pluginhost.ForRun(ctx, string(restore.UID)), &restore)
	if run.Superseded(err) {
		return ctrl.Result{}, nil
	}
	return again, r.explain(ctx, &restore, err)
}

func (r *Restores) reconcile(ctx context.Context, restore *velerov1.Restore) (ctrl.Result, error) {
	objects, err := r.objectsOf(ctx, restore)
	if errors.Is(err, errNoFiles) {
		r.trouble(restore, "OperationsUnknown", err.Error())
		return ctrl.Result{}, r.end(ctx, restore, nil, 1)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	w := &waiting{
		object: restore, owner: run.OwnerOfRestore(restore), timeout: restore.Spec.ItemOperationTimeout.Duration,
		files: files{
			objects: objects, name: restore.Name,
			operations: velerov1.DownloadTargetKindRestoreItemOperations, results: velerov1.DownloadTargetKindRestoreResults,
			putOperations: objects.PutRestoreItemOperations, putResults: objects.PutRestoreResults,
			appendLog: objects.AppendRestoreLog,
			remove:    func(ctx context.Context) error { return objects.DeleteRestore(ctx, restore.Name) },
		},
		counted: run.OperationsOfRestore(restore),
	}
	return r.wait(ctx, w, func(ctx context.Context, all []operation.Operation) error {
		return r.AdvanceRestore(ctx, restore, func(restore *velerov1.Restore) error {
			run.CountOperationsOfRestore(restore, operation.Count(all))
			return nil
		})
	}, func(ctx context.Context, all []operation.Operation, errs int) error {
		return r.end(ctx, restore, all, errs)
	})
}

// errNoFiles means that the files of a restore cannot be found any more.
var errNoFiles = errors.New("the files of the restore cannot be found")

// objectsOf opens the location of the backup. The error is errNoFiles if the backup or its location was deleted.
func (c *Common) objectsOf(ctx context.Context, restore *velerov1.Restore) (*store.Store, error) {
	var backup velerov1.Backup
	err := c.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.BackupName}, &backup)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: backup %s does not exist any more", errNoFiles, restore.Spec.BackupName)
	}
	if err != nil {
		return nil, err
	}
	location, err := c.GetLocation(ctx, backup.Spec.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) {
		return nil, fmt.Errorf("%w: %w", errNoFiles, err)
	}
	if err != nil {
		return nil, err
	}
	return c.patient(restore).Open(ctx, location)
}

// end moves a restore on to Finalizing.
func (r *Restores) end(ctx context.Context, restore *velerov1.Restore, all []operation.Operation, errs int) error {
	uid := restore.UID
	err := r.AdvanceRestore(ctx, restore, func(restore *velerov1.Restore) error {
		partially := errs > 0 || restore.Status.Phase == velerov1.RestorePhaseWaitingForPluginOperationsPartiallyFailed
		if all != nil {
			run.CountOperationsOfRestore(restore, operation.Count(all))
		}
		restore.Status.Errors += errs
		restore.Status.Phase = velerov1.RestorePhaseFinalizing
		if partially {
			restore.Status.Phase = velerov1.RestorePhaseFinalizingPartiallyFailed
		}
		return nil
	})
	if err == nil || run.Superseded(err) {
		r.forget(uid)
	}
	return err
}
