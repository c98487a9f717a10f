package run

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/store"
)

// failedBackup is the end of a backup that cannot be used.
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

// failedRestore is the end of a restore that could not be done.
func FailedRestore(reason error, now time.Time) func(*velerov1.Restore) {
	return func(restore *velerov1.Restore) {
		restore.Status.Phase = velerov1.RestorePhaseFailed
		restore.Status.FailureReason = reason.Error()
		restore.Status.CompletionTimestamp = Timestamp(now)
	}
}

// uncleanAnnotation marks a Failed backup some of whose data may still be in the bucket. It is set
// by the write that says Failed, so that it cannot get lost, and removed with the data by the
// backup finalizer, which tries until the object storage lets it.
const PartialDataAnnotation = "cleat.dev/partial-data"

func MarkPartialData(b *velerov1.Backup) {
	if b.Annotations == nil {
		b.Annotations = make(map[string]string)
	}
	b.Annotations[PartialDataAnnotation] = "to-be-removed"
}

func HasPartialData(b *velerov1.Backup) bool {
	return b.Annotations[PartialDataAnnotation] != ""
}

// stamp is a moment as the API server keeps it: in whole seconds.
func Timestamp(t time.Time) *metav1.Time {
	return new(metav1.NewTime(t.Truncate(time.Second)))
}
