package run

import velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"

// AllBackupPhases exports allBackupPhases for the external tests.
func AllBackupPhases() []velerov1.BackupPhase { return allBackupPhases() }
