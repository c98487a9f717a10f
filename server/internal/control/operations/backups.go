package operations

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// Backups moves backups from WaitingForPluginOperations to Finalizing when all their operations have ended.
type Backups struct{ *Common }

// Reconcile processes one waiting backup. It can be repeated.
func (r *Backups) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var b velerov1.Backup
	if err := r.Get(ctx, req.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	phase := run.BackupPhase(&b)
	if b.DeletionTimestamp != nil || phase != velerov1.BackupPhaseWaitingForPluginOperations &&
		phase != velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed {
		return ctrl.Result{}, nil
	}
	again, err := r.reconcile(pluginhost.ForRun(ctx, string(b.UID)), &b)
	if run.Superseded(err) {
		return ctrl.Result{}, nil
	}
	if errors.Is(err, store.ErrStale) { // the cache will have the newest state
		return ctrl.Result{RequeueAfter: writePause}, nil
	}
	return again, r.explain(ctx, &b, err)
}

func (r *Backups) reconcile(ctx context.Context, b *velerov1.Backup) (ctrl.Result, error) {
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	switch {
	case errors.Is(err, run.ErrLocationNotFound):
		return ctrl.Result{}, r.giveUp(ctx, b, err)
	case err != nil:
		return ctrl.Result{}, err
	case run.ReadOnly(location):
		return ctrl.Result{}, r.giveUp(ctx, b, fmt.Errorf("backup storage location %s is currently in read-only mode",
			location.Name))
	}
	opened, err := r.patient(b).Open(ctx, location)
	if err != nil {
		return ctrl.Result{}, err
	}
	objects := opened.Of(b)
	if r.Monitor.Group(b.UID) == nil { // the operations were not loaded yet
		switch uid, err := objects.BackupUID(ctx, b.Name); {
		case errors.Is(err, store.ErrNotFound) || err == nil && uid != "" && uid != b.UID:
			return ctrl.Result{}, r.giveUp(ctx, b, fmt.Errorf("backup storage location %s does not hold this backup under its "+
				"name", location.Name))
		case err != nil:
			return ctrl.Result{}, err
		}
	}
	draft := objects.Draft(b, r.SpoolDir)
	defer draft.Close()
	noted := false // what is drafted
	note := func(ctx context.Context, change func(*velerov1.Backup)) error {
		err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
			change(b)
			return draft.Note(b)
		})
		noted = err == nil
		return err
	}
	_, recorded := b.Annotations[queue.OccupiedAnnotation]
	w := &waiting{
		unrecorded: !recorded,
		object:     b, owner: run.OwnerOfBackup(b), timeout: b.Spec.ItemOperationTimeout.Duration,
		files: files{
			objects: draft.Store, name: b.Name,
			operations: velerov1.DownloadTargetKindBackupItemOperations, results: velerov1.DownloadTargetKindBackupResults,
			putOperations: draft.PutBackupItemOperations, putResults: draft.PutBackupResults,
			appendLog: draft.AppendBackupLog,
			commit: func(ctx context.Context) error {
				if draft.IsEmpty() {
					return nil
				}
				if !noted {
					if err := note(ctx, func(*velerov1.Backup) {}); err != nil {
						return err
					}
				}
				noted = false
				return draft.Flush(ctx)
			},
			remove: func(ctx context.Context) error { return objects.RemoveTraces(ctx, b.Name, b.UID) },
		},
		counted: run.OperationsOfBackup(b),
	}
	return r.wait(ctx, w, func(ctx context.Context, all []operation.Operation) error {
		return note(ctx, func(b *velerov1.Backup) { setBackup(b, all) })
	}, func(ctx context.Context, all []operation.Operation, errs int) error {
		return r.end(ctx, b, all, errs, draft)
	})
}

// setBackup writes the counts, and the namespaces that are taken, into the status.
func setBackup(b *velerov1.Backup, all []operation.Operation) {
	run.CountOperationsOfBackup(b, operation.Count(all))
	queue.Occupy(b, operation.Namespaces(all))
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.OperationsAnnotation, operation.Digest(all))
}

// end moves a backup on to Finalizing.
func (r *Backups) end(
	ctx context.Context, b *velerov1.Backup, all []operation.Operation, errs int, draft *store.Draft,
) error {
	uid, now := b.UID, run.Timestamp(r.Now())
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		partially := errs > 0 || b.Status.Phase == velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed
		if all != nil {
			setBackup(b, all)
		} else { // nothing is known of them
			delete(b.Annotations, velerov1.OperationsAnnotation)
		}
		b.Status.Errors += errs
		b.Status.Phase = velerov1.BackupPhaseFinalizing
		if partially {
			b.Status.Phase = velerov1.BackupPhaseFinalizingPartiallyFailed
		}
		b.Status.CompletionTimestamp = now
		queue.Occupy(b, nil)
		return draft.Note(b)
	})
	if err == nil || run.Superseded(err) {
		r.forget(uid)
	}
	return err
}

// giveUp ends a backup whose files can no longer be written (Velero's rule). Its operations are cancelled as
// leftovers.
func (r *Backups) giveUp(ctx context.Context, b *velerov1.Backup, reason error) error {
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		run.EndUnstored(b, reason)
		b.Status.CompletionTimestamp = run.Timestamp(r.Now())
		queue.Occupy(b, nil)
		return nil
	})
	if err == nil {
		r.Metrics.BackupEnded(b)
		r.Logs.End(b.UID)
		r.Log.Error("the backup does not wait for its operations any more", "backup", b.Namespace+"/"+b.Name, "reason",
			reason)
	}
	return err
}
