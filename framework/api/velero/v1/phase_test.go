package v1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestBackupPhase(t *testing.T) {
	t.Parallel()
	for phase, want := range map[v1.BackupPhase]struct{ isNew, terminal bool }{
		"":                                       {isNew: true},
		v1.BackupPhaseNew:                        {isNew: true},
		v1.BackupPhaseQueued:                     {},
		v1.BackupPhaseReadyToStart:               {},
		v1.BackupPhaseFailedValidation:           {terminal: true},
		v1.BackupPhaseInProgress:                 {},
		v1.BackupPhaseWaitingForPluginOperations: {},
		v1.BackupPhaseWaitingForPluginOperationsPartiallyFailed: {},
		v1.BackupPhaseFinalizing:                                {},
		v1.BackupPhaseFinalizingPartiallyFailed:                 {},
		v1.BackupPhaseCompleted:                                 {terminal: true},
		v1.BackupPhasePartiallyFailed:                           {terminal: true},
		v1.BackupPhaseFailed:                                    {terminal: true},
		v1.BackupPhaseDeleting:                                  {},
		"Paused":                                                {},
	} {
		require.Equal(t, want.isNew, phase.IsNew(), "IsNew of %q", phase)
		require.Equal(t, want.terminal, phase.Terminal(), "Terminal of %q", phase)
	}
}

func TestRestorePhase(t *testing.T) {
	t.Parallel()
	for phase, want := range map[v1.RestorePhase]struct{ isNew, terminal bool }{
		"":                              {isNew: true},
		v1.RestorePhaseNew:              {isNew: true},
		v1.RestorePhaseFailedValidation: {terminal: true},
		v1.RestorePhaseInProgress:       {},
		v1.RestorePhaseWaitingForPluginOperations:                {},
		v1.RestorePhaseWaitingForPluginOperationsPartiallyFailed: {},
		v1.RestorePhaseFinalizing:                                {},
		v1.RestorePhaseFinalizingPartiallyFailed:                 {},
		v1.RestorePhaseCompleted:                                 {terminal: true},
		v1.RestorePhasePartiallyFailed:                           {terminal: true},
		v1.RestorePhaseFailed:                                    {terminal: true},
		"Paused":                                                 {},
	} {
		require.Equal(t, want.isNew, phase.IsNew(), "IsNew of %q", phase)
		require.Equal(t, want.terminal, phase.Terminal(), "Terminal of %q", phase)
	}
}

func TestLoadPhase(t *testing.T) {
	t.Parallel()
	for phase, want := range map[v1.LoadPhase]struct{ isNew, terminal bool }{
		"":                     {isNew: true},
		v1.LoadPhaseNew:        {isNew: true},
		v1.LoadPhaseAccepted:   {},
		v1.LoadPhasePrepared:   {},
		v1.LoadPhaseInProgress: {},
		v1.LoadPhaseCanceling:  {},
		v1.LoadPhaseCanceled:   {terminal: true},
		v1.LoadPhaseCompleted:  {terminal: true},
		v1.LoadPhaseFailed:     {terminal: true},
		"Paused":               {},
	} {
		require.Equal(t, want.isNew, phase.IsNew(), "IsNew of %q", phase)
		require.Equal(t, want.terminal, phase.Terminal(), "Terminal of %q", phase)
	}
}

func TestDownloadTargetKindOfRestore(t *testing.T) {
	t.Parallel()
	for kind, ofRestore := range map[v1.DownloadTargetKind]bool{
		v1.DownloadTargetKindBackupLog:                       false,
		v1.DownloadTargetKindBackupContents:                  false,
		v1.DownloadTargetKindBackupVolumeSnapshots:           false,
		v1.DownloadTargetKindBackupItemOperations:            false,
		v1.DownloadTargetKindBackupResourceList:              false,
		v1.DownloadTargetKindBackupResults:                   false,
		v1.DownloadTargetKindCSIBackupVolumeSnapshots:        false,
		v1.DownloadTargetKindCSIBackupVolumeSnapshotContents: false,
		v1.DownloadTargetKindBackupVolumeInfos:               false,
		v1.DownloadTargetKindRestoreLog:                      true,
		v1.DownloadTargetKindRestoreResults:                  true,
		v1.DownloadTargetKindRestoreResourceList:             true,
		v1.DownloadTargetKindRestoreItemOperations:           true,
		v1.DownloadTargetKindRestoreVolumeInfo:               true,
	} {
		require.Equal(t, ofRestore, kind.OfRestore(), "%s", kind)
	}
}
