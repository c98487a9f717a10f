package run

import (
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Owns reports whether backup is the stored one, as its velero-backup.json has it: it has the same uid, or backup is a
// copy of it in another cluster, which has the same status and was not created before the start. Times are seconds, so
// that a backup of the same name that started in the same second differs only by its failureReason: it found the name
// taken.
func Owns(backup, stored *velerov1.Backup) bool {
	if stored.UID == backup.UID {
		return true
	}
	have, want := &backup.Status, &stored.Status
	return have.StartTimestamp != nil && have.StartTimestamp.Equal(want.StartTimestamp) &&
		have.CompletionTimestamp.Equal(want.CompletionTimestamp) && have.FailureReason == want.FailureReason &&
		!backup.CreationTimestamp.Before(have.StartTimestamp)
}
