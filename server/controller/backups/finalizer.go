package backups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/metrics"
	"github.com/cleat-dev/cleat/server/run"
	"github.com/cleat-dev/cleat/server/store"
)

// Finalizer takes a backup from the end of its run to the final phase and deletes the files that a failed one has left.
// Each step can be repeated, so the next server continues after a crash. If a backup is deleted before that, no files of it stay, as
// if it had been deleted during its run.
type Finalizer struct {
	*run.Cluster
	Stores  run.Stores
	Metrics *metrics.Metrics
	Log     hclog.Logger
	Now     func() time.Time

	mu      sync.Mutex
	deleted map[client.ObjectKey]*velerov1.Backup // before they were finalized; their files are still to be deleted
}

// OnDelete returns a handler that requests the deletion of the files of a backup that is deleted before it was finalized.
func (r *Finalizer) OnDelete() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent, pending workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		b, ok := e.Object.(*velerov1.Backup)
		if !ok || e.DeleteStateUnknown || !isUnfinished(b) { // in an unknown state, it may have been finalized
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.deleted == nil {
			r.deleted = map[client.ObjectKey]*velerov1.Backup{}
		}
		r.deleted[client.ObjectKeyFromObject(b)] = b
		pending.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
	}}
}

// isUnfinished reports whether a backup has to be finalized or cleaned up.
func isUnfinished(b *velerov1.Backup) bool {
	switch run.BackupPhase(b) {
	case velerov1.BackupPhaseFinalizing, velerov1.BackupPhaseFinalizingPartiallyFailed:
		return true
	case velerov1.BackupPhaseFailed:
		return run.HasPartialData(b)
	default:
		return false
	}
}

// Reconcile finalizes or cleans up one backup.
func (r *Finalizer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := r.Log.With("backup", req.String())
	if err := r.forget(ctx, req.NamespacedName, log); err != nil {
		return ctrl.Result{}, err
	}
	var b velerov1.Backup
	if err := r.Get(ctx, req.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var err error
	switch phase := run.BackupPhase(&b); {
	case phase == velerov1.BackupPhaseFinalizing:
		err = r.finalize(ctx, &b, velerov1.BackupPhaseCompleted, log)
	case phase == velerov1.BackupPhaseFinalizingPartiallyFailed:
		err = r.finalize(ctx, &b, velerov1.BackupPhasePartiallyFailed, log)
	case phase == velerov1.BackupPhaseFailed && run.HasPartialData(&b):
		err = r.clean(ctx, &b, log)
	}
	if errors.Is(err, run.ErrNotFound) || errors.Is(err, run.ErrPhaseChanged) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// forget deletes the files of a deleted backup, if one of that name was deleted before it was finalized.
func (r *Finalizer) forget(ctx context.Context, key client.ObjectKey, log hclog.Logger) error {
	r.mu.Lock()
	b := r.deleted[key]
	r.mu.Unlock()
	if b == nil {
		return nil
	}
	switch err := removeTraces(ctx, r.Cluster, r.Stores, b); {
	case errors.Is(err, run.ErrLocationNotFound):
		log.Warn("cannot delete the files of the deleted backup", "error", err)
	case err != nil:
		return fmt.Errorf("delete the files of the backup, which was deleted before it was finalized: %w", err)
	default:
		log.Info("deleted the files of the backup, which was deleted before it was finalized")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted[key] == b {
		delete(r.deleted, key)
	}
	return nil
}

// finalize stores velero-backup.json with the final phase and then writes the phase.
func (r *Finalizer) finalize(ctx context.Context, b *velerov1.Backup, final velerov1.BackupPhase, log hclog.Logger) error {
	status := velerov1.BackupStatus{Phase: final, CompletionTimestamp: run.Timestamp(r.Now())}
	switch err := r.putMetadata(ctx, b, &status); {
	case errors.Is(err, run.ErrLocationNotFound):
		status.Phase = velerov1.BackupPhasePartiallyFailed
		status.FailureReason = fmt.Sprintf("finalize the backup: %v", err)
	case err != nil:
		return fmt.Errorf("finalize the backup: %w", err)
	}
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		end(b, status)
		return nil
	})
	if err == nil {
		log.Info("the backup has ended", "phase", b.Status.Phase, "reason", b.Status.FailureReason)
		r.Metrics.BackupEnded(b)
	}
	return err
}

// end adds the end of a backup to its status.
func end(b *velerov1.Backup, status velerov1.BackupStatus) {
	b.Status.Phase = status.Phase
	b.Status.CompletionTimestamp = status.CompletionTimestamp
	if status.FailureReason != "" {
		b.Status.FailureReason = status.FailureReason
	}
}

// putMetadata overwrites velero-backup.json with the backup in its final status. An attempt before, of which this server may not
// know whether its status was written, has decided when the backup was completed.
func (r *Finalizer) putMetadata(ctx context.Context, b *velerov1.Backup, status *velerov1.BackupStatus) error {
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	if err != nil {
		return err
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return fmt.Errorf("open backup storage location %s: %w", location.Name, err)
	}
	stored, err := objects.BackupMetadata(ctx, b.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var before velerov1.Backup // stays empty if the file is missing or damaged
	if json.Unmarshal(stored, &before) == nil && before.UID == b.UID && before.Status.CompletionTimestamp != nil {
		status.CompletionTimestamp = before.Status.CompletionTimestamp
	}
	ended := b.DeepCopy()
	end(ended, *status)
	metadata, err := encodeBackup(ended)
	if err != nil {
		return err
	}
	return objects.PutBackupMetadata(ctx, b.Name, metadata)
}

// clean deletes the files of a failed backup and then removes the annotation.
func (r *Finalizer) clean(ctx context.Context, b *velerov1.Backup, log hclog.Logger) error {
	switch err := removePartial(ctx, r.Cluster, r.Stores, b); {
	case errors.Is(err, run.ErrLocationNotFound):
		log.Warn("cannot delete the files of the failed backup", "error", err)
	case err != nil:
		return fmt.Errorf("delete the files of the failed backup: %w", err)
	}
	before := b.DeepCopy()
	delete(b.Annotations, run.PartialDataAnnotation)
	if err := r.Patch(ctx, b, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	log.Info("deleted the files of the failed backup, if there were any")
	return nil
}
