package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/metrics"
	"github.com/cleat-dev/cleat/server/run"
)

// BackupFinalizer brings a backup whose run has ended to its final phase, and removes what a
// failed one left in the bucket. All it does may be done twice, so a server that dies in it is
// continued by the next one.
type Finalizer struct {
	*run.Cluster
	Stores  run.Stores
	Metrics *metrics.Metrics
	Log     hclog.Logger
	Now     func() time.Time
}

// Reconcile takes up one backup. An error, of the object storage in most cases, is tried again.
func (r *Finalizer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var b velerov1.Backup
	if err := r.Get(ctx, req.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	log := r.Log.With("backup", req.String())
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

// finalize stores velero-backup.json with the final phase, then writes that phase.
func (r *Finalizer) finalize(ctx context.Context, b *velerov1.Backup, final velerov1.BackupPhase, log hclog.Logger) error {
	status := velerov1.BackupStatus{Phase: final, CompletionTimestamp: run.Timestamp(r.Now())}
	switch err := r.putMetadata(ctx, b, status); {
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

// end takes over what the end of a backup adds to its status.
func end(b *velerov1.Backup, status velerov1.BackupStatus) {
	b.Status.Phase = status.Phase
	b.Status.CompletionTimestamp = status.CompletionTimestamp
	if status.FailureReason != "" {
		b.Status.FailureReason = status.FailureReason
	}
}

// putMetadata overwrites velero-backup.json with the backup as it is about to end.
func (r *Finalizer) putMetadata(ctx context.Context, b *velerov1.Backup, status velerov1.BackupStatus) error {
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	if err != nil {
		return err
	}
	ended := b.DeepCopy()
	end(ended, status)
	metadata, err := encodeBackup(ended)
	if err != nil {
		return err
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return fmt.Errorf("open backup storage location %s: %w", location.Name, err)
	}
	return objects.PutBackupMetadata(ctx, b.Name, metadata)
}

// clean removes what a failed backup has in the bucket, then the mark that says so.
func (r *Finalizer) clean(ctx context.Context, b *velerov1.Backup, log hclog.Logger) error {
	switch err := removePartial(ctx, r.Cluster, r.Stores, b); {
	case errors.Is(err, run.ErrLocationNotFound):
		log.Warn("what the failed backup may have stored cannot be removed", "error", err)
	case err != nil:
		return fmt.Errorf("remove what the failed backup left in the bucket: %w", err)
	}
	before := b.DeepCopy()
	delete(b.Annotations, run.PartialDataAnnotation)
	if err := r.Patch(ctx, b, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	log.Info("removed what the failed backup may have left in the bucket")
	return nil
}
