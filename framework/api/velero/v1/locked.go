package v1

import (
	"time"
)

const (
	// LocksAnnotation of a BackupStorageLocation is what its bucket locks, as its object store has told at the last
	// validation: JSON. There is none if the object store does not tell.
	LocksAnnotation = "cleat.dev/locks"

	// KeptAnnotation of a Backup, or of a DeleteBackupRequest, is why it is not deleted yet: the bucket keeps its files
	// until a time (RFC 3339), or KeptByHold. The server deletes it afterwards by itself.
	KeptAnnotation = "cleat.dev/kept"

	// HoldAnnotation of a Backup asks for a legal hold on its files, "true", or for the end of one, "false". The server
	// removes the latter when it is done.
	HoldAnnotation = "cleat.dev/hold"

	// HeldAnnotation of a Backup is "true" when the server has set the hold on all files.
	HeldAnnotation = "cleat.dev/held"

	// HoldFailureAnnotation of a Backup is why the server could not set or end the hold, for people.
	HoldFailureAnnotation = "cleat.dev/hold-failure"
)

// KeptByHold is the value of KeptAnnotation of a Backup that has a legal hold.
const KeptByHold = "hold"

// KeptText returns a value of KeptAnnotation for people: "kept until 2026-11-27T18:00:00Z", or "kept: held".
func KeptText(value string) string {
	if _, err := time.Parse(time.RFC3339, value); err == nil {
		return "kept until " + value
	}
	return "kept: held"
}
