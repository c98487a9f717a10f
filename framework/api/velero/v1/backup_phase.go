package v1

// BackupPhase is the state of a Backup. The empty phase is the same as New.
//
//	New -> Queued -> ReadyToStart -> InProgress -> WaitingForPluginOperations -> Finalizing -> Completed
//
// If the spec is not valid, ReadyToStart is followed by FailedValidation, and after a fatal error
// InProgress is followed by Failed. Once an item has failed, the variants named PartiallyFailed
// replace WaitingForPluginOperations, Finalizing and Completed. A backup without asynchronous
// operations skips WaitingForPluginOperations.
//
// +kubebuilder:validation:Enum=New;Queued;ReadyToStart;FailedValidation;InProgress;WaitingForPluginOperations;WaitingForPluginOperationsPartiallyFailed;Finalizing;FinalizingPartiallyFailed;Completed;PartiallyFailed;Failed;Deleting
type BackupPhase string

const (
	// BackupPhaseNew is a backup that no controller has processed.
	BackupPhaseNew BackupPhase = "New"

	// BackupPhaseQueued is a backup that waits in the queue at status.queuePosition.
	BackupPhaseQueued BackupPhase = "Queued"

	// BackupPhaseReadyToStart is a backup that was admitted from the queue and holds a slot.
	BackupPhaseReadyToStart BackupPhase = "ReadyToStart"

	// BackupPhaseFailedValidation is a backup whose spec is not valid because of status.validationErrors.
	BackupPhaseFailedValidation BackupPhase = "FailedValidation"

	// BackupPhaseInProgress is a backup whose items are being collected and stored.
	BackupPhaseInProgress BackupPhase = "InProgress"

	// BackupPhaseWaitingForPluginOperations is a backup whose items are stored and whose
	// asynchronous plugin operations still run. It holds no slot.
	BackupPhaseWaitingForPluginOperations BackupPhase = "WaitingForPluginOperations"

	// BackupPhaseWaitingForPluginOperationsPartiallyFailed is WaitingForPluginOperations with
	// errors: the backup will end PartiallyFailed.
	BackupPhaseWaitingForPluginOperationsPartiallyFailed BackupPhase = "WaitingForPluginOperationsPartiallyFailed"

	// BackupPhaseFinalizing is a backup whose operations have ended and whose files are being
	// updated.
	BackupPhaseFinalizing BackupPhase = "Finalizing"

	// BackupPhaseFinalizingPartiallyFailed is Finalizing with errors: the backup will end
	// PartiallyFailed.
	BackupPhaseFinalizingPartiallyFailed BackupPhase = "FinalizingPartiallyFailed"

	// BackupPhaseCompleted is a backup that ended without errors.
	BackupPhaseCompleted BackupPhase = "Completed"

	// BackupPhasePartiallyFailed is a backup that ended with errors of some items.
	BackupPhasePartiallyFailed BackupPhase = "PartiallyFailed"

	// BackupPhaseFailed is a backup that failed with status.failureReason and cannot be restored.
	BackupPhaseFailed BackupPhase = "Failed"

	// BackupPhaseDeleting is a backup that is being deleted with its files, snapshots and restores.
	BackupPhaseDeleting BackupPhase = "Deleting"
)

// IsNew reports whether no controller has processed the backup yet.
func (p BackupPhase) IsNew() bool {
	return p == "" || p == BackupPhaseNew
}

// Restorable reports whether the backup has ended with files from which it can be restored.
func (p BackupPhase) Restorable() bool {
	return p == BackupPhaseCompleted || p == BackupPhasePartiallyFailed
}

// Terminal reports whether the backup has ended, with any result, so that it can only change by being deleted.
// Deleting is not terminal: work goes on until the Backup object no longer exists.
func (p BackupPhase) Terminal() bool {
	switch p {
	case BackupPhaseFailedValidation, BackupPhaseCompleted, BackupPhasePartiallyFailed, BackupPhaseFailed:
		return true
	default:
		return false
	}
}
