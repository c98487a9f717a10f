package v1

// RestorePhase is the state of a Restore. The empty phase is the same as New.
//
//	New -> InProgress -> WaitingForPluginOperations -> Finalizing -> Completed
//
// If the spec is not valid, New is followed by FailedValidation, and after a fatal error
// InProgress is followed by Failed. Once an item has failed, the variants named PartiallyFailed
// replace WaitingForPluginOperations, Finalizing and Completed. A restore without asynchronous
// operations skips WaitingForPluginOperations.
//
// +kubebuilder:validation:Enum=New;FailedValidation;InProgress;WaitingForPluginOperations;WaitingForPluginOperationsPartiallyFailed;Finalizing;FinalizingPartiallyFailed;Completed;PartiallyFailed;Failed
type RestorePhase string

const (
	// RestorePhaseNew is a restore that no controller has processed.
	RestorePhaseNew RestorePhase = "New"

	// RestorePhaseFailedValidation is a restore whose spec is not valid because of status.validationErrors.
	RestorePhaseFailedValidation RestorePhase = "FailedValidation"

	// RestorePhaseInProgress is a restore whose items are being created.
	RestorePhaseInProgress RestorePhase = "InProgress"

	// RestorePhaseWaitingForPluginOperations is a restore whose items are created and whose
	// asynchronous plugin operations still run.
	RestorePhaseWaitingForPluginOperations RestorePhase = "WaitingForPluginOperations"

	// RestorePhaseWaitingForPluginOperationsPartiallyFailed is WaitingForPluginOperations with
	// errors: the restore will end PartiallyFailed.
	RestorePhaseWaitingForPluginOperationsPartiallyFailed RestorePhase = "WaitingForPluginOperationsPartiallyFailed"

	// RestorePhaseFinalizing is a restore whose operations have ended and whose last steps are in
	// progress: patches of dynamic volumes, hooks, temporary snapshot contents.
	RestorePhaseFinalizing RestorePhase = "Finalizing"

	// RestorePhaseFinalizingPartiallyFailed is Finalizing with errors: the restore will end
	// PartiallyFailed.
	RestorePhaseFinalizingPartiallyFailed RestorePhase = "FinalizingPartiallyFailed"

	// RestorePhaseCompleted is a restore that ended without errors.
	RestorePhaseCompleted RestorePhase = "Completed"

	// RestorePhasePartiallyFailed is a restore that ended with errors of some items.
	RestorePhasePartiallyFailed RestorePhase = "PartiallyFailed"

	// RestorePhaseFailed is a restore that failed with status.failureReason.
	RestorePhaseFailed RestorePhase = "Failed"
)

// IsNew reports whether no controller has processed the restore yet.
func (p RestorePhase) IsNew() bool {
	return p == "" || p == RestorePhaseNew
}

// Terminal reports whether the restore has ended, with any result.
func (p RestorePhase) Terminal() bool {
	switch p {
	case RestorePhaseFailedValidation, RestorePhaseCompleted, RestorePhasePartiallyFailed, RestorePhaseFailed:
		return true
	default:
		return false
	}
}
