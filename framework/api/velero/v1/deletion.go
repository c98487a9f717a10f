package v1

// DeletionFailureAnnotation of a Backup is why its last deletion has failed, for people. It outlives the
// DeleteBackupRequest.
const DeletionFailureAnnotation = "cleat.dev/deletion-failure"
