package run

import velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"

// AllBackupPhases is for the tests outside the package.
func AllBackupPhases() []velerov1.BackupPhase { return allBackupPhases() }
