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

// Finalizer takes a backup from the end of its run to the final phase and deletes the files that a failed one has left.
// Each step can be repeated, so the next server continues after a crash.
type Finalizer struct {
	*run.Cluster
	Stores  run.Stores
	Metrics *metrics.Metrics
	Log     hclog.Logger
	Now     func() time.Time
}

// Reconcile finalizes or cleans up one backup.
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

// finalize stores velero-backup.json with the final phase and then writes the phase.
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

// end adds the end of a backup to its status.
func end(b *velerov1.Backup, status velerov1.BackupStatus) {
	b.Status.Phase = status.Phase
	b.Status.CompletionTimestamp = status.CompletionTimestamp
	if status.FailureReason != "" {
		b.Status.FailureReason = status.FailureReason
	}
}

// putMetadata overwrites velero-backup.json with the backup in its final status.
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
