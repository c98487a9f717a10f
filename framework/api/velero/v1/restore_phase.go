package v1

// RestorePhase is the state of a Restore. The empty phase is the same as New.
//
//	New -> InProgress -> WaitingForPluginOperations -> Finalizing -> Completed
//
// New leads to FailedValidation instead when the spec is refused, and InProgress to Failed on a
// fatal error. Once an item failed, the variants named PartiallyFailed take the place of
// WaitingForPluginOperations, Finalizing and Completed. A restore without asynchronous operations
// skips WaitingForPluginOperations.
//
// +kubebuilder:validation:Enum=New;FailedValidation;InProgress;WaitingForPluginOperations;WaitingForPluginOperationsPartiallyFailed;Finalizing;FinalizingPartiallyFailed;Completed;PartiallyFailed;Failed
type RestorePhase string

const (
	// RestorePhaseNew is a restore that no controller has seen.
	RestorePhaseNew RestorePhase = "New"

	// RestorePhaseFailedValidation is a restore that was refused for status.validationErrors.
	RestorePhaseFailedValidation RestorePhase = "FailedValidation"

	// RestorePhaseInProgress is a restore whose items are being created.
	RestorePhaseInProgress RestorePhase = "InProgress"

	// RestorePhaseWaitingForPluginOperations is a restore whose items are created and whose
	// asynchronous plugin operations still run.
	RestorePhaseWaitingForPluginOperations RestorePhase = "WaitingForPluginOperations"

	// RestorePhaseWaitingForPluginOperationsPartiallyFailed is WaitingForPluginOperations with
	// errors: the restore will end PartiallyFailed.
	RestorePhaseWaitingForPluginOperationsPartiallyFailed RestorePhase = "WaitingForPluginOperationsPartiallyFailed"

	// RestorePhaseFinalizing is a restore whose operations ended and whose last steps are done:
	// patches of dynamic volumes, hooks, temporary snapshot contents.
	RestorePhaseFinalizing RestorePhase = "Finalizing"

	// RestorePhaseFinalizingPartiallyFailed is Finalizing with errors: the restore will end
	// PartiallyFailed.
	RestorePhaseFinalizingPartiallyFailed RestorePhase = "FinalizingPartiallyFailed"

	// RestorePhaseCompleted is a restore that ended without errors.
	RestorePhaseCompleted RestorePhase = "Completed"

	// RestorePhasePartiallyFailed is a restore that ended and lacks some items.
	RestorePhasePartiallyFailed RestorePhase = "PartiallyFailed"

	// RestorePhaseFailed is a restore that ended for status.failureReason.
	RestorePhaseFailed RestorePhase = "Failed"
)

// IsNew reports whether no controller has taken the restore up yet.
func (p RestorePhase) IsNew() bool {
	return p == "" || p == RestorePhaseNew
}

// Terminal reports whether the restore has ended, well or not.
func (p RestorePhase) Terminal() bool {
	switch p {
	case RestorePhaseFailedValidation, RestorePhaseCompleted, RestorePhasePartiallyFailed, RestorePhaseFailed:
		return true
	default:
		return false
	}
}
