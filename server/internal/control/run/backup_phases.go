package run

import (
	"errors"
	"fmt"
	"slices"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// backupTransition is one transition of the state machine of backups.
type backupTransition struct {
	from velerov1.BackupPhase
	to   velerov1.BackupPhase
	by   string // the controller that writes it, by its name in --disable-controllers
}

// backupTransitions returns the state machine of backups. No other transition is ever written. The empty phase means
// New and does not occur here.
func backupTransitions() []backupTransition {
	const (
		newPhase       = velerov1.BackupPhaseNew
		queued         = velerov1.BackupPhaseQueued
		ready          = velerov1.BackupPhaseReadyToStart
		invalid        = velerov1.BackupPhaseFailedValidation
		inProgress     = velerov1.BackupPhaseInProgress
		waiting        = velerov1.BackupPhaseWaitingForPluginOperations
		waitingPartial = velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed
		finalizing     = velerov1.BackupPhaseFinalizing
		finalPartial   = velerov1.BackupPhaseFinalizingPartiallyFailed
		completed      = velerov1.BackupPhaseCompleted
		partial        = velerov1.BackupPhasePartiallyFailed
		failed         = velerov1.BackupPhaseFailed
		deleting       = velerov1.BackupPhaseDeleting
	)
	return []backupTransition{
		// Admission. A backup that is ready but cannot be started fails, which frees its slot. A backup that has to
		// wait again, for its location or for another backup, goes back to the queue.
		{newPhase, queued, BackupQueueController},
		{queued, ready, BackupQueueController},
		{ready, queued, BackupController},
		{ready, invalid, BackupController},
		{ready, inProgress, BackupController},
		{ready, failed, BackupController},
		{newPhase, failed, BackupController}, // cancelled before its turn
		{queued, failed, BackupController},
		{newPhase, invalid, BackupController}, // refused before its turn, so that it holds up no others
		{queued, invalid, BackupController},

		// The run. If another process takes it up, it replaces the claim and keeps the phase.
		{inProgress, inProgress, BackupController},
		{inProgress, failed, BackupController},
		{inProgress, failed, RecoveryController},
		{inProgress, waiting, BackupController},
		{inProgress, waitingPartial, BackupController},
		{inProgress, finalizing, BackupController},
		{inProgress, finalPartial, BackupController},

		// Asynchronous operations of plugins. Their counts change while the backup waits.
		{waiting, waiting, BackupOperationsController},
		{waitingPartial, waitingPartial, BackupOperationsController},
		{waiting, finalizing, BackupOperationsController},
		{waiting, finalPartial, BackupOperationsController},
		{waiting, partial, BackupOperationsController},
		{waiting, failed, BackupOperationsController}, // with files that are staged only
		{waitingPartial, finalPartial, BackupOperationsController},
		{waitingPartial, partial, BackupOperationsController},
		{waitingPartial, failed, BackupOperationsController},

		// The end. A Finalizing backup whose location was deleted ends PartiallyFailed, too, or Failed if its files are
		// staged only. The sums of staged files are noted before they are published.
		{finalizing, finalizing, BackupFinalizerController},
		{finalPartial, finalPartial, BackupFinalizerController},
		{finalizing, completed, BackupFinalizerController},
		{finalizing, partial, BackupFinalizerController},
		{finalPartial, partial, BackupFinalizerController},
		{finalizing, failed, BackupFinalizerController},
		{finalPartial, failed, BackupFinalizerController},

		// Deletion, in every phase in which no controller works on the backup. If its deletion fails, a backup stays
		// Deleting until the next request.
		{newPhase, deleting, BackupDeletionController},
		{queued, deleting, BackupDeletionController},
		{ready, deleting, BackupDeletionController},
		{invalid, deleting, BackupDeletionController},
		{completed, deleting, BackupDeletionController},
		{partial, deleting, BackupDeletionController},
		{failed, deleting, BackupDeletionController},
	}
}

// BackupPhase returns the phase of a backup, as velerov1.PhaseOf does. A dry run never counts as New.
func BackupPhase(b *velerov1.Backup) velerov1.BackupPhase {
	phase := velerov1.PhaseOf(b)
	if phase == velerov1.BackupPhaseNew && velerov1.IsDryRun(b) {
		return velerov1.BackupPhaseFailedValidation
	}
	return phase
}

// CheckBackupTransition returns an error if a backup cannot go from one phase to the other.
func CheckBackupTransition(from, to velerov1.BackupPhase) error {
	ok := slices.ContainsFunc(backupTransitions(), func(t backupTransition) bool { return t.from == from && t.to == to })
	if !ok {
		return fmt.Errorf("a backup does not go from %s to %s", from, to)
	}
	return nil
}

// BackupBusy reports whether a controller works on backups in a phase, so that they cannot be deleted.
func BackupBusy(phase velerov1.BackupPhase) bool {
	switch phase {
	case velerov1.BackupPhaseInProgress,
		velerov1.BackupPhaseWaitingForPluginOperations, velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed,
		velerov1.BackupPhaseFinalizing, velerov1.BackupPhaseFinalizingPartiallyFailed:
		return true
	default:
		return false
	}
}

// EndUnstored ends a backup whose last files cannot be stored, for a reason. It is PartiallyFailed, because it can be
// restored from the other files. It is Failed if the object store has lost its archive, or if its files are staged:
// nobody finds them, and they stay until the backup is deleted.
func EndUnstored(b *velerov1.Backup, reason error) {
	b.Status.Phase, b.Status.FailureReason = velerov1.BackupPhasePartiallyFailed, reason.Error()
	if errors.Is(reason, store.ErrLost) {
		b.Status.Phase = velerov1.BackupPhaseFailed
	}
	if b.Annotations[velerov1.StagedAnnotation] != "" {
		b.Status.Phase = velerov1.BackupPhaseFailed
		b.Status.FailureReason += "; the files of the backup were not published, so that it cannot be restored"
	}
}

// DeletedInPhaseAnnotation is the former phase of a Deleting backup.
const DeletedInPhaseAnnotation = "cleat.dev/deleted-in-phase"

// SettledPhase returns the phase of a backup or, for a Deleting one, the phase before. If another server has begun the
// deletion, the phase before is not known: the backup counts as PartiallyFailed if its run has ended.
func SettledPhase(b *velerov1.Backup) velerov1.BackupPhase {
	phase := BackupPhase(b)
	if phase != velerov1.BackupPhaseDeleting {
		return phase
	}
	before := velerov1.BackupPhase(b.Annotations[DeletedInPhaseAnnotation])
	if before == "" && b.Status.CompletionTimestamp != nil {
		before = velerov1.BackupPhasePartiallyFailed
	}
	return before
}

// NeverStored reports whether a backup was never started and so has no files.
func NeverStored(b *velerov1.Backup) bool {
	switch SettledPhase(b) {
	case velerov1.BackupPhaseNew, velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart,
		velerov1.BackupPhaseFailedValidation:
		return true
	default:
		return false
	}
}
