package backups

import (
	"context"
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
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
)

// Finalizer takes a backup from the end of its run to the final phase and deletes the files that a failed one has left.
// Each step can be repeated, so the next server continues after a crash. If a backup is deleted before that, no files
// of it stay, as if it had been deleted during its run.
type Finalizer struct {
	*run.Cluster
	Stores   run.Stores
	Plugins  run.Plugins
	Engine   Refresh
	SpoolDir string // for temporary files; empty means that of the system
	Volumes  *volumes.Hub
	// Manifests describe a backup again that has changed after its operations, with what References finds.
	Manifests  *policy.Manifests
	References *reference.Table
	Logs       *run.Logs
	Metrics    *metrics.Metrics
	// StoreOutage is how long a backup waits for an object store that answers but refuses its last files.
	StoreOutage time.Duration
	Log         hclog.Logger
	Now         func() time.Time

	mu      sync.Mutex
	deleted map[client.ObjectKey]*velerov1.Backup // before they were finalized; their files are still to be deleted
}

// OnDelete returns a handler that requests the deletion of the files of a backup that is deleted before it was
// finalized.
func (r *Finalizer) OnDelete() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent,
		pending workqueue.TypedRateLimitingInterface[ctrl.Request]) {
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
	case velerov1.BackupPhaseWaitingForPluginOperations, velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed,
		velerov1.BackupPhaseFinalizing, velerov1.BackupPhaseFinalizingPartiallyFailed:
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
	if run.Superseded(err) {
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
	r.Logs.End(b.UID)
	return nil
}

// finalize stores velero-backup.json with the final phase and then writes the phase.
func (r *Finalizer) finalize(
	ctx context.Context, b *velerov1.Backup, final velerov1.BackupPhase, log hclog.Logger,
) error {
	ctx = pluginhost.ForRun(ctx, string(b.UID))
	status := velerov1.BackupStatus{Phase: final, CompletionTimestamp: b.Status.CompletionTimestamp}
	if status.CompletionTimestamp == nil { // Velero decides it here
		status.CompletionTimestamp = run.Timestamp(r.Now())
	}
	status.Errors, status.Warnings = b.Status.Errors, b.Status.Warnings
	if err := panics.Catch(log, func() error { return r.store(ctx, b, &status) }); err != nil {
		err = fmt.Errorf("finalize the backup: %w", err)
		if err := r.endAnyway(ctx, b, err); err != nil {
			return err
		}
		status.Phase = velerov1.BackupPhasePartiallyFailed
		status.FailureReason = err.Error()
	}
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		end(b, status)
		return nil
	})
	if err == nil || run.Superseded(err) {
		r.Logs.End(b.UID)
	}
	if err == nil {
		log.Info("the backup has ended", "phase", b.Status.Phase, "reason", b.Status.FailureReason)
		r.Metrics.BackupEnded(b)
	}
	return err
}

// endAnyway returns nil if a backup ends although failure keeps its last files from the object storage: the location is
// gone, or it has refused them for too long, or holds another backup. The other files are stored. Otherwise endAnyway
// returns failure, for another attempt.
func (r *Finalizer) endAnyway(ctx context.Context, b *velerov1.Backup, failure error) error {
	if errors.Is(failure, run.ErrLocationNotFound) || errors.Is(failure, errOtherBackup) ||
		errors.Is(failure, panics.Err) {
		return nil
	}
	end, err := r.GiveUp(ctx, b, r.Ask(r.Stores, b.Spec.StorageLocation), failure, r.StoreOutage, r.Now())
	if err != nil || !end {
		return errors.Join(failure, err)
	}
	return r.Volumes.Keep(ctx, b.UID) // the backup can be restored
}

// end adds the end of a backup to its status.
func end(b *velerov1.Backup, status velerov1.BackupStatus) {
	b.Status.Phase = status.Phase
	b.Status.CompletionTimestamp = status.CompletionTimestamp
	b.Status.Errors, b.Status.Warnings = status.Errors, status.Warnings
	b.Status.CSIVolumeSnapshotsCompleted = status.CSIVolumeSnapshotsCompleted
	if status.FailureReason != "" {
		b.Status.FailureReason = status.FailureReason
	}
}

// store completes the files of the backup, its log last.
func (r *Finalizer) store(ctx context.Context, b *velerov1.Backup, status *velerov1.BackupStatus) error {
	objects, err := locationOf(ctx, r.Cluster, r.Stores, b)
	if err != nil {
		return err
	}
	if err := mustOwn(ctx, b, objects); err != nil {
		return err
	}
	late := r.Logs.Late(operation.OfBackup, b)
	if err := r.settle(ctx, b, objects, status, late.Logger()); err != nil {
		return err
	}
	return run.StoreLate(ctx, late, b.Name, r.SpoolDir, objects.AppendBackupLog)
}

// settle refreshes the archive and overwrites velero-backup.json with the backup in its final status. Each attempt
// writes the same, also that of a server that was stopped and goes on.
func (r *Finalizer) settle(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, status *velerov1.BackupStatus, log hclog.Logger,
) error {
	operations, err := r.operations(ctx, b, objects)
	if err != nil {
		return err
	}
	status.CSIVolumeSnapshotsCompleted = r.Volumes.CompletedCSI(operations)
	csi := r.Volumes.TakesCSI(operations)
	if csi {
		switch done, err := stored(ctx, b, objects); {
		case err != nil:
			return err
		case done != nil: // an earlier attempt has passed this step, and there is nothing left to read
			*status = *done
			return r.Volumes.Keep(ctx, b.UID)
		}
	}
	if err := r.Volumes.Settle(ctx, b, objects, operations, log); err != nil {
		return err
	}
	if err := r.refresh(ctx, b, objects, operations, status, log); err != nil {
		return err
	}
	ended := b.DeepCopy()
	end(ended, *status)
	metadata, err := encodeBackup(ended)
	if err != nil {
		return err
	}
	if err := objects.PutBackupMetadata(ctx, b.Name, metadata); err != nil || !csi {
		return err
	}
	return r.Volumes.Keep(ctx, b.UID)
}

// stored returns the status of a backup in the bucket if it is final, and otherwise nil.
func stored(ctx context.Context, b *velerov1.Backup, objects *store.Store) (*velerov1.BackupStatus, error) {
	metadata, err := objects.BackupMetadata(ctx, b.Name)
	if err != nil {
		return nil, err
	}
	var found velerov1.Backup
	if err := store.DecodeMetadata(metadata, &found); err != nil || found.UID != b.UID || !found.Status.Phase.Terminal() {
		return nil, nil //nolint:nilerr // a damaged file is replaced
	}
	return &found.Status, nil
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
