package run

import (
	"errors"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// FailedBackup returns the change of a backup that ends Failed for a reason.
func FailedBackup(reason error, now time.Time) func(*velerov1.Backup) {
	return func(b *velerov1.Backup) {
		b.Status.Phase = velerov1.BackupPhaseFailed
		b.Status.FailureReason = reason.Error()
		b.Status.CompletionTimestamp = Timestamp(now)
		if errors.Is(reason, store.ErrNotCleaned) {
			MarkPartialData(b)
		}
	}
}

// FailedRestore returns the change of a restore that ends Failed for a reason.
func FailedRestore(reason error, now time.Time) func(*velerov1.Restore) {
	return func(restore *velerov1.Restore) {
		restore.Status.Phase = velerov1.RestorePhaseFailed
		restore.Status.FailureReason = reason.Error()
		restore.Status.CompletionTimestamp = Timestamp(now)
	}
}

// PartialDataAnnotation marks a Failed backup that may have left files in the object storage. The write that sets the
// phase also sets the annotation, so that it cannot get lost. The finalizer of backups deletes the files, repeatedly
// if necessary, and then removes the annotation.
const PartialDataAnnotation = "cleat.dev/partial-data"

// MarkPartialData sets PartialDataAnnotation.
func MarkPartialData(b *velerov1.Backup) {
	if b.Annotations == nil {
		b.Annotations = make(map[string]string)
	}
	b.Annotations[PartialDataAnnotation] = "to-be-removed"
}

// HasPartialData reports whether a backup has PartialDataAnnotation, and not from its creator.
func HasPartialData(b *velerov1.Backup) bool {
	return !velerov1.IsAsCreated(b) && b.Annotations[PartialDataAnnotation] != ""
}
