package v1

// BackupPhase is the state of a Backup. The empty phase is the same as New.
//
//	New -> Queued -> ReadyToStart -> InProgress -> WaitingForPluginOperations -> Finalizing -> Completed
//
// ReadyToStart leads to FailedValidation instead when the spec is refused, and InProgress to
// Failed on a fatal error. Once an item failed, the variants named PartiallyFailed take the place
// of WaitingForPluginOperations, Finalizing and Completed. A backup without asynchronous
// operations skips WaitingForPluginOperations.
//
// +kubebuilder:validation:Enum=New;Queued;ReadyToStart;FailedValidation;InProgress;WaitingForPluginOperations;WaitingForPluginOperationsPartiallyFailed;Finalizing;FinalizingPartiallyFailed;Completed;PartiallyFailed;Failed;Deleting
type BackupPhase string

const (
	// BackupPhaseNew is a backup that no controller has seen.
	BackupPhaseNew BackupPhase = "New"

	// BackupPhaseQueued is a backup that waits for its turn at status.queuePosition.
	BackupPhaseQueued BackupPhase = "Queued"

	// BackupPhaseReadyToStart is a backup that was admitted from the queue and holds a slot.
	BackupPhaseReadyToStart BackupPhase = "ReadyToStart"

	// BackupPhaseFailedValidation is a backup that was refused for status.validationErrors.
	BackupPhaseFailedValidation BackupPhase = "FailedValidation"

	// BackupPhaseInProgress is a backup whose items are being collected and stored.
	BackupPhaseInProgress BackupPhase = "InProgress"

	// BackupPhaseWaitingForPluginOperations is a backup whose items are stored and whose
	// asynchronous plugin operations still run. It holds no slot.
	BackupPhaseWaitingForPluginOperations BackupPhase = "WaitingForPluginOperations"

	// BackupPhaseWaitingForPluginOperationsPartiallyFailed is WaitingForPluginOperations with
	// errors: the backup will end PartiallyFailed.
	BackupPhaseWaitingForPluginOperationsPartiallyFailed BackupPhase = "WaitingForPluginOperationsPartiallyFailed"

	// BackupPhaseFinalizing is a backup whose operations ended and whose files are being brought
	// up to date.
	BackupPhaseFinalizing BackupPhase = "Finalizing"

	// BackupPhaseFinalizingPartiallyFailed is Finalizing with errors: the backup will end
	// PartiallyFailed.
	BackupPhaseFinalizingPartiallyFailed BackupPhase = "FinalizingPartiallyFailed"

	// BackupPhaseCompleted is a backup that ended without errors.
	BackupPhaseCompleted BackupPhase = "Completed"

	// BackupPhasePartiallyFailed is a backup that ended and lacks some items.
	BackupPhasePartiallyFailed BackupPhase = "PartiallyFailed"

	// BackupPhaseFailed is a backup that ended for status.failureReason and cannot be restored.
	BackupPhaseFailed BackupPhase = "Failed"

	// BackupPhaseDeleting is a backup that is being deleted with all that belongs to it.
	BackupPhaseDeleting BackupPhase = "Deleting"
)

// IsNew reports whether no controller has taken the backup up yet.
func (p BackupPhase) IsNew() bool {
	return p == "" || p == BackupPhaseNew
}

// Terminal reports whether the backup has ended, well or not, and changes only by being deleted.
// Deleting is not terminal: work goes on until the Backup is gone.
func (p BackupPhase) Terminal() bool {
	switch p {
	case BackupPhaseFailedValidation, BackupPhaseCompleted, BackupPhasePartiallyFailed, BackupPhaseFailed:
		return true
	default:
		return false
	}
}
