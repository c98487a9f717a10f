package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/cleat-dev/cleat/server/internal/kube/results"
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
	err := r.Get(ctx, req.NamespacedName, &b)
	if err == nil && isUnfinished(&b) { // the cache may not have the end yet, and what was stored must stay
		b = velerov1.Backup{}
		err = r.Live.Get(ctx, req.NamespacedName, &b)
	}
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
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
	if errors.Is(err, store.ErrStale) {
		return ctrl.Result{RequeueAfter: stalePause}, nil
	}
	return ctrl.Result{}, err
}

// stalePause is the time after which the cache is likely to have the newest state of a backup.
const stalePause = time.Second

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
	if run.Superseded(failure) || errors.Is(failure, store.ErrStale) {
		return failure
	}
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
	objects, err := locationOf(ctx, r.Cluster, r.PatientAtEnd(r.Stores, b, r.StoreOutage, log, r.Now), b)
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
// backup in its final status as the last one. All of them are drafted and their sums noted before one is stored, so that
// a server which goes on after another was killed starts from what that one has written, and nothing else.
func (r *Finalizer) settle(
	ctx context.Context, b *velerov1.Backup, opened *store.Store, status *velerov1.BackupStatus,
) (files store.Tally, err error) {
	if err := mustOwn(ctx, b, opened); err != nil {
		return nil, err
	}
	draft := opened.Draft(b, r.SpoolDir)
	defer draft.Close()
	operations, err := r.operations(ctx, b, draft.Store)
	if err != nil {
		return nil, err
	}
	status.CSIVolumeSnapshotsCompleted = r.Volumes.CompletedCSI(operations)
	csi := r.Volumes.TakesCSI(operations)
	switch files, err := r.settled(ctx, b, draft, csi, status); {
	case err != nil:
		return nil, err
	case files != nil && csi:
		return files, r.Volumes.Keep(ctx, b.UID)
	case files != nil:
		return files, nil
	}
	late := r.Logs.Late(operation.OfBackup, b)
	lost, err := r.Volumes.Settle(ctx, b, draft.Store, operations, late.Logger())
	if err == nil {
		err = r.addResults(ctx, b, draft.Store, results.Results{Warnings: lost}, status)
	}
	if err != nil {
		return nil, err
	}
	if err := r.refresh(ctx, b, draft.Store, operations, status, late.Logger()); err != nil {
		return nil, err
	}
	err = run.StoreLast(ctx, late, func(ctx context.Context, lines io.ReadSeeker) (err error) {
		if err := draft.AppendBackupLog(ctx, b.Name, r.SpoolDir, lines); err != nil {
			return err
		}
		if files, err = r.conclude(ctx, b, draft, status); err != nil {
			return err
		}
		if draft.Rewrites() || csi {
			if err := r.AdvanceBackup(ctx, b, draft.Note); err != nil {
				return err
			}
		}
		return draft.Flush(ctx)
	})
	if err != nil {
		return nil, err
	}
	if csi {
		err = r.Volumes.Keep(ctx, b.UID)
	}
	return files, err
}

// settled returns the sums of the files if a former server has stored all of them and was killed before it wrote that to
// the Backup, and otherwise nil. It sets the status to that which was stored. The objects of CSI snapshots may be gone by
// then, so that nothing can be settled again.
func (r *Finalizer) settled(
	ctx context.Context, b *velerov1.Backup, draft *store.Draft, csi bool, status *velerov1.BackupStatus,
) (store.Tally, error) {
	metadata, files, err := draft.Flushed(ctx)
	if _, own := b.Annotations[velerov1.FilesAnnotation]; err == nil && !own && csi { // nothing is noted
		if metadata, err = draft.BackupMetadata(ctx, b.Name); err == nil {
			files = store.MetadataTally(metadata)
		}
	}
	if err != nil || metadata == nil {
		return nil, err
	}
	done := final(metadata, b)
	if done == nil {
		return nil, nil
	}
	*status = done.Status
	return files, nil
}

// conclude drafts the checksums of the backup, and velero-backup.json with its final status. It returns the sums of all
// files.
func (r *Finalizer) conclude(
	ctx context.Context, b *velerov1.Backup, draft *store.Draft, status *velerov1.BackupStatus,
) (store.Tally, error) {
	files, err := draft.Tally(ctx)
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
		if err := r.Sign(ctx, draft.Store, ended, files, metadata); err != nil {
			return nil, err
		}
	}
	if err := draft.PutBackupMetadata(ctx, b.Name, metadata); err != nil {
		return nil, err
	}
	return files.With(draft.Drafted()), nil
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
	metadata, err := objects.Published().BackupMetadata(ctx, b.Name)
	if err != nil {
		return err
	}
	done := final(metadata, b)
	if done == nil || store.MetadataTally(metadata)[store.MetadataFile] != files[store.MetadataFile] {
		return errors.New("what is published is not the final backup")
	}
	*status = done.Status
	if err := objects.Unstage(ctx, b); err != nil {
		log.Warn("the staged files of the backup stay, because they cannot be deleted", "error", err)
	}
	return nil
}

// final returns the backup in a velero-backup.json if it is b in a final phase, and otherwise nil.
func final(metadata []byte, b *velerov1.Backup) *velerov1.Backup {
	var found velerov1.Backup
	if store.DecodeMetadata(metadata, &found) != nil || found.UID != b.UID || !found.Status.Phase.Terminal() {
		return nil
	}
	return &found
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
