package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// allBackupPhases returns the phases of the custom resource definition.
func allBackupPhases() []velerov1.BackupPhase {
	return []velerov1.BackupPhase{
		"New", "Queued", "ReadyToStart", "FailedValidation", "InProgress", "WaitingForPluginOperations",
		"WaitingForPluginOperationsPartiallyFailed", "Finalizing", "FinalizingPartiallyFailed",
		"Completed", "PartiallyFailed", "Failed", "Deleting",
	}
}

func TestEveryBackupPhaseIsReachedAndLeft(t *testing.T) {
	t.Parallel()
	in, out := map[velerov1.BackupPhase]int{}, map[velerov1.BackupPhase]int{}
	for _, tr := range backupTransitions() {
		if tr.from == tr.to {
			require.True(t, tr.from == velerov1.BackupPhaseInProgress || tr.by == BackupOperationsController ||
				tr.by == BackupFinalizerController,
				"%s stays: only a run is taken up by another process, operations are counted, and files are summed", tr.from)
			continue
		}
		require.NotEmpty(t, tr.by)
		require.Contains(t, allBackupPhases(), tr.from)
		require.Contains(t, allBackupPhases(), tr.to)
		out[tr.from]++
		in[tr.to]++
	}
	for _, phase := range allBackupPhases() {
		if phase != velerov1.BackupPhaseNew {
			require.Positive(t, in[phase], "%s cannot be reached", phase)
		}
		if phase != velerov1.BackupPhaseDeleting {
			require.Positive(t, out[phase], "%s cannot be left", phase)
		}
	}
}

func TestEveryBackupCanEnd(t *testing.T) {
	t.Parallel()
	ends := map[velerov1.BackupPhase]bool{}
	for _, phase := range allBackupPhases() {
		ends[phase] = phase.Terminal() || phase == velerov1.BackupPhaseDeleting
	}
	for range allBackupPhases() {
		for _, tr := range backupTransitions() {
			if tr.by != BackupDeletionController {
				ends[tr.from] = ends[tr.from] || ends[tr.to]
			}
		}
	}
	for phase, ok := range ends {
		require.True(t, ok, "a backup in %s never ends by itself", phase)
	}
}

func TestEndedBackupsAreOnlyDeleted(t *testing.T) {
	t.Parallel()
	for _, tr := range backupTransitions() {
		if tr.from.Terminal() {
			require.Equal(t, velerov1.BackupPhaseDeleting, tr.to, "from %s", tr.from)
		}
		if tr.to == velerov1.BackupPhaseDeleting {
			require.False(t, BackupBusy(tr.from), "%s is deleted while a controller works on it", tr.from)
		}
	}
}

func TestBackupWithErrorsNeverCompletes(t *testing.T) {
	t.Parallel()
	withErrors := map[velerov1.BackupPhase]bool{
		velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed: true,
		velerov1.BackupPhaseFinalizingPartiallyFailed:                 true,
	}
	for _, tr := range backupTransitions() {
		if withErrors[tr.from] {
			ends := tr.to == velerov1.BackupPhasePartiallyFailed || tr.to == velerov1.BackupPhaseFailed
			require.True(t, withErrors[tr.to] || ends, "%s to %s", tr.from, tr.to)
		}
	}
}

func TestOnlyTransitionsOfTheTableAreAllowed(t *testing.T) {
	t.Parallel()
	allowed := 0
	for _, from := range allBackupPhases() {
		for _, to := range allBackupPhases() {
			if CheckBackupTransition(from, to) == nil {
				allowed++
			}
		}
	}
	require.Less(t, allowed, len(backupTransitions())+1)
	require.ErrorContains(t, CheckBackupTransition("Completed", "InProgress"),
		"a backup does not go from Completed to InProgress")
	require.NoError(t, CheckBackupTransition("ReadyToStart", "InProgress"))
	require.Error(t, CheckBackupTransition("Deleting", "ReadyToStart"))
}

func TestEveryRestorePhaseIsReachedAndLeft(t *testing.T) {
	t.Parallel()
	all := []velerov1.RestorePhase{
		"New", "FailedValidation", "InProgress", "WaitingForPluginOperations",
		"WaitingForPluginOperationsPartiallyFailed", "Finalizing", "FinalizingPartiallyFailed",
		"Completed", "PartiallyFailed", "Failed",
	}
	in, out := map[velerov1.RestorePhase]int{}, map[velerov1.RestorePhase]int{}
	for _, tr := range restoreTransitions() {
		require.Contains(t, all, tr.from)
		require.Contains(t, all, tr.to)
		require.False(t, tr.from.Terminal(), "an ended restore does not change")
		out[tr.from]++
		in[tr.to]++
	}
	for _, phase := range all {
		require.Equal(t, phase != velerov1.RestorePhaseNew, in[phase] > 0, phase)
		require.Equal(t, !phase.Terminal(), out[phase] > 0, phase)
	}
	require.ErrorContains(t, checkRestoreTransition("Failed", "New"), "a restore does not go from Failed to New")
}

func TestNeverStored(t *testing.T) {
	t.Parallel()
	in := func(phase velerov1.BackupPhase) *velerov1.Backup {
		return &velerov1.Backup{Status: velerov1.BackupStatus{Phase: phase}}
	}
	for phase, want := range map[velerov1.BackupPhase]bool{
		"": true, "New": true, "Queued": true, "ReadyToStart": true, "FailedValidation": true,
		"Completed": false, "PartiallyFailed": false, "Failed": false, "Deleting": false,
	} {
		require.Equal(t, want, NeverStored(in(phase)), phase)
	}
	deleting := in("Deleting")
	deleting.Annotations = map[string]string{DeletedInPhaseAnnotation: "FailedValidation"}
	require.True(t, NeverStored(deleting))
}
