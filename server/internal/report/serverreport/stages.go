package serverreport

import (
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Stage is a stage of a backup, restore or deletion that calls actions, with their kinds in the order in which they
// run.
type Stage struct {
	Name  string // "backup"
	Kinds []string
}

// Stages returns all stages.
func Stages() []Stage {
	return []Stage{
		{"item blocks", []string{kinds.ItemBlockAction().Name}},
		{"backup", []string{kinds.BackupItemAction().Name, kinds.AsyncBackupItemAction().Name}},
		{"restore", []string{kinds.RestoreItemAction().Name, kinds.AsyncRestoreItemAction().Name}},
		{"deletion", []string{kinds.DeleteItemAction().Name}},
	}
}
