package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Sign stores the checksums of the files of a backup, before the last one, metadata, is stored. It may be nil.
	Sign func(ctx context.Context, objects *store.Store, b *velerov1.Backup, files store.Tally, metadata []byte) error
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
	var files store.Tally
	failure := panics.Catch(log, func() (err error) {
		files, err = r.store(ctx, b, &status, log)
		return err
	})
	if failure != nil {
		failure = fmt.Errorf("finalize the backup: %w", failure)
		if err := r.endAnyway(ctx, b, failure); err != nil {
			return err
		}
	}
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		end(b, status)
		files.Note(b)
		if failure != nil {
			run.EndUnstored(b, failure)
		} else {
			delete(b.Annotations, velerov1.StagedAnnotation)
		}
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
// gone, or it has refused them for too long, or holds another backup. The other files are stored, or staged. Otherwise
// endAnyway returns failure, for another attempt.
func (r *Finalizer) endAnyway(ctx context.Context, b *velerov1.Backup, failure error) error {
	if errors.Is(failure, run.ErrLocationNotFound) || errors.Is(failure, errOtherBackup) ||
		errors.Is(failure, panics.Err) {
		return nil
	}
	end, err := r.GiveUp(ctx, b, r.Ask(r.Stores, b.Spec.StorageLocation), failure, r.StoreOutage, r.Now())
	if err != nil || !end {
		return errors.Join(failure, err)
	}
	return r.Volumes.Keep(ctx, b.UID) // its other files are stored, and it has them until it is deleted
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

// store completes the files of the backup and returns their sums. If the files are staged, it publishes them.
func (r *Finalizer) store(
	ctx context.Context, b *velerov1.Backup, status *velerov1.BackupStatus, log hclog.Logger,
) (files store.Tally, err error) {
	objects, err := locationOf(ctx, r.Cluster, r.Stores, b)
	if err != nil {
		return nil, err
	}
	if !objects.IsStaged() {
		return r.settle(ctx, b, objects, status)
	}
	if files = store.TallyOf(b); !files.IsFinal() {
		if files, err = r.settle(ctx, b, objects, status); err != nil {
			return nil, err
		}
		// From here on the files are what they are, whoever publishes them.
		err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
			files.Note(b)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, r.publish(ctx, b, objects, files, status, log)
}

// settle completes the files of the backup: what its operations have changed, its log, and velero-backup.json with the
// backup in its final status as the last one. Each attempt writes the same, also that of a server that was stopped and
// goes on.
func (r *Finalizer) settle(
	ctx context.Context, b *velerov1.Backup, opened *store.Store, status *velerov1.BackupStatus,
) (store.Tally, error) {
	objects, record := opened.Recording(b.Name)
	if err := mustOwn(ctx, b, objects); err != nil {
		return nil, err
	}
	operations, err := r.operations(ctx, b, objects)
	if err != nil {
		return nil, err
	}
	late := r.Logs.Late(operation.OfBackup, b)
	status.CSIVolumeSnapshotsCompleted = r.Volumes.CompletedCSI(operations)
	csi := r.Volumes.TakesCSI(operations)
	if csi {
		switch done, sum, err := stored(ctx, b, objects); {
		case err != nil:
			return nil, err
		case done != nil: // an earlier attempt has passed this step, and there is nothing left to read
			*status = done.Status
			if err := r.Volumes.Keep(ctx, b.UID); err != nil {
				return nil, err
			}
			return objects.WithChecksums(ctx, b.Name, store.TallyOf(b).With(store.TallyOf(done)).With(sum))
		}
	}
	if err := r.Volumes.Settle(ctx, b, objects, operations, late.Logger()); err != nil {
		return nil, err
	}
	if err := r.refresh(ctx, b, objects, operations, status, late.Logger()); err != nil {
		return nil, err
	}
	if err := run.StoreLate(ctx, late, b.Name, r.SpoolDir, objects.AppendBackupLog); err != nil {
		return nil, err
	}
	files, err := confirm(ctx, b, objects, operations, record)
	if err != nil {
		return nil, err
	}
	ended := b.DeepCopy()
	end(ended, *status)
	delete(ended.Annotations, velerov1.StagedAnnotation)
	files.Note(ended)
	metadata, err := encodeBackup(ended)
	if err != nil {
		return nil, err
	}
	if _, own := b.Annotations[velerov1.FilesAnnotation]; own && r.Sign != nil {
		if err := r.Sign(ctx, objects, ended, files, metadata); err != nil {
			return nil, err
		}
	}
	if err := objects.PutBackupMetadata(ctx, b.Name, metadata); err != nil {
		return nil, err
	}
	if csi {
		err = r.Volumes.Keep(ctx, b.UID)
	}
	return files.With(record.Tally()), err
}

// confirm returns the sums of the files that are stored. What was stored since the end of the run is read again, because
// a server that was killed has not noted its last writes: while the backup waited for its operations, and after them.
func confirm(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, operations []operation.Operation, record *store.Record,
) (store.Tally, error) {
	stored := record.Tally()
	files := store.TallyOf(b).With(stored)
	if b.Status.BackupItemOperationsAttempted == 0 {
		return files, nil
	}
	written := store.WrittenWhileWaiting(b.Name)
	if readsAgain(operations) {
		for name := range files {
			if store.FileName(b.Name, name) != "" { // a former server has noted kinds instead
				written = append(written, name)
			}
		}
	}
	slices.Sort(written)
	for _, name := range slices.Compact(written) {
		if _, known := stored[name]; known {
			continue
		}
		switch sum, err := objects.SumOf(ctx, b.Name, name); {
		case errors.Is(err, store.ErrNotFound):
			delete(files, name)
		case err != nil:
			return nil, err
		default:
			files[name] = sum
		}
	}
	return files, nil
}

// publish publishes the staged files of a backup, which files has the sums of, and removes the stage.
func (r *Finalizer) publish(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, files store.Tally, status *velerov1.BackupStatus,
	log hclog.Logger,
) error {
	if b.Status.Expiration != nil {
		objects = objects.Retain(b.Status.Expiration.Time)
	}
	if err := objects.Publish(ctx, b.Name, files); err != nil {
		return err
	}
	switch done, _, err := stored(ctx, b, objects.Published()); {
	case err != nil:
		return err
	case done == nil:
		return errors.New("what is published is not the final backup")
	default:
		*status = done.Status
	}
	if err := objects.Unstage(ctx, b); err != nil {
		log.Warn("the staged files of the backup stay, because they cannot be deleted", "error", err)
	}
	return nil
}

// stored returns a backup as it is in the bucket if it is final, and otherwise nil, and the sum of the file.
func stored(ctx context.Context, b *velerov1.Backup, objects *store.Store) (*velerov1.Backup, store.Tally, error) {
	metadata, err := objects.BackupMetadata(ctx, b.Name)
	if err != nil {
		return nil, nil, err
	}
	var found velerov1.Backup
	if err := store.DecodeMetadata(metadata, &found); err != nil || found.UID != b.UID || !found.Status.Phase.Terminal() {
		return nil, nil, nil //nolint:nilerr // a damaged file is replaced
	}
	return &found, store.MetadataTally(metadata), nil
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
