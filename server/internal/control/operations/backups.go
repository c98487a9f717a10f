package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"

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
	opened, err := r.Stores.Open(ctx, location)
	if err != nil {
		return ctrl.Result{}, err
	}
	objects, record := opened.Of(b).Recording(b.Name)
	if r.Monitor.Group(b.UID) == nil { // the operations were not loaded yet
		switch uid, err := objects.BackupUID(ctx, b.Name); {
		case errors.Is(err, store.ErrNotFound) || err == nil && uid != "" && uid != b.UID:
			return ctrl.Result{}, r.giveUp(ctx, b, fmt.Errorf("backup storage location %s does not hold this backup under its "+
				"name", location.Name))
		case err != nil:
			return ctrl.Result{}, err
		}
	}
	_, recorded := b.Annotations[queue.OccupiedAnnotation]
	w := &waiting{
		unrecorded: !recorded,
		object:     b, owner: run.OwnerOfBackup(b), timeout: b.Spec.ItemOperationTimeout.Duration,
		files: files{
			objects: objects, name: b.Name,
			operations: velerov1.DownloadTargetKindBackupItemOperations, results: velerov1.DownloadTargetKindBackupResults,
			putOperations: objects.PutBackupItemOperations, putResults: objects.PutBackupResults,
			appendLog: objects.AppendBackupLog,
			remove:    func(ctx context.Context) error { return objects.RemoveTraces(ctx, b.Name, b.UID) },
		},
		counted: run.OperationsOfBackup(b),
	}
	again, err := r.wait(ctx, w, func(ctx context.Context, all []operation.Operation) error {
		return r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
			setBackup(b, all)
			record.Tally().Note(b)
			return nil
		})
	}, func(ctx context.Context, all []operation.Operation, errs int) error {
		return r.end(ctx, b, all, errs, record.Tally())
	})
	if err != nil {
		return again, err
	}
	return again, r.note(ctx, b, record.Tally())
}

// note notes the sums of files that were stored, unless they are noted already.
func (r *Backups) note(ctx context.Context, b *velerov1.Backup, stored store.Tally) error {
	noted := store.TallyOf(b)
	if maps.Equal(noted, noted.With(stored)) {
		return nil
	}
	return r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		stored.Note(b)
		return nil
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
	ctx context.Context, b *velerov1.Backup, all []operation.Operation, errs int, stored store.Tally,
) error {
	uid, now := b.UID, run.Timestamp(r.Now())
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		partially := errs > 0 || b.Status.Phase == velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed
		if all != nil {
			setBackup(b, all)
		}
		b.Status.Errors += errs
		b.Status.Phase = velerov1.BackupPhaseFinalizing
		if partially {
			b.Status.Phase = velerov1.BackupPhaseFinalizingPartiallyFailed
		}
		b.Status.CompletionTimestamp = now
		queue.Occupy(b, nil)
		stored.Note(b)
		return nil
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
