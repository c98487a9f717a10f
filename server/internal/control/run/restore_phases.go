package run

import (
	"fmt"
	"slices"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// restoreTransition is one transition of the state machine of restores.
type restoreTransition struct {
	from velerov1.RestorePhase
	to   velerov1.RestorePhase
	by   string
}

// restoreTransitions returns the state machine of restores. No other transition is ever written. The empty phase means
// New and does not occur here.
func restoreTransitions() []restoreTransition {
	const (
		newPhase       = velerov1.RestorePhaseNew
		invalid        = velerov1.RestorePhaseFailedValidation
		inProgress     = velerov1.RestorePhaseInProgress
		waiting        = velerov1.RestorePhaseWaitingForPluginOperations
		waitingPartial = velerov1.RestorePhaseWaitingForPluginOperationsPartiallyFailed
		finalizing     = velerov1.RestorePhaseFinalizing
		finalPartial   = velerov1.RestorePhaseFinalizingPartiallyFailed
		completed      = velerov1.RestorePhaseCompleted
		partial        = velerov1.RestorePhasePartiallyFailed
		failed         = velerov1.RestorePhaseFailed
	)
	return []restoreTransition{
		{newPhase, invalid, RestoreController},
		{newPhase, inProgress, RestoreController},
		{newPhase, failed, RestoreController}, // cancelled before it was started

		{inProgress, inProgress, RestoreController}, // taken up by another process
		{inProgress, failed, RestoreController},
		{inProgress, failed, RecoveryController},
		{inProgress, waiting, RestoreController},
		{inProgress, waitingPartial, RestoreController},
		{inProgress, finalizing, RestoreController},
		{inProgress, finalPartial, RestoreController},

		{waiting, waiting, RestoreOperationsController}, // their counts change
		{waitingPartial, waitingPartial, RestoreOperationsController},
		{waiting, finalizing, RestoreOperationsController},
		{waiting, finalPartial, RestoreOperationsController},
		{waitingPartial, finalPartial, RestoreOperationsController},

		{finalizing, completed, RestoreFinalizerController},
		{finalizing, partial, RestoreFinalizerController}, // hooks have failed
		{finalPartial, partial, RestoreFinalizerController},
	}
}

// RestorePhase returns the phase of a restore, as velerov1.PhaseOfRestore does. A dry run never counts as New.
func RestorePhase(r *velerov1.Restore) velerov1.RestorePhase {
	phase := velerov1.PhaseOfRestore(r)
	if phase == velerov1.RestorePhaseNew && velerov1.IsDryRun(r) {
		return velerov1.RestorePhaseFailedValidation
	}
	return phase
}

// checkRestoreTransition returns an error if a restore cannot go from one phase to the other.
func checkRestoreTransition(from, to velerov1.RestorePhase) error {
	ok := slices.ContainsFunc(restoreTransitions(), func(t restoreTransition) bool { return t.from == from && t.to == to })
	if !ok {
		return fmt.Errorf("a restore does not go from %s to %s", from, to)
	}
	return nil
}
