package serverreport

import (
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Stage is when actions are called, and of which kinds those are, in the order in which they run.
type Stage struct {
	Name  string // "backup"
	Kinds []string
}

// Stages are all of them.
func Stages() []Stage {
	return []Stage{
		{"item blocks", []string{kinds.ItemBlockAction().Name}},
		{"backup", []string{kinds.BackupItemAction().Name, kinds.AsyncBackupItemAction().Name}},
		{"restore", []string{kinds.RestoreItemAction().Name, kinds.AsyncRestoreItemAction().Name}},
		{"deletion", []string{kinds.DeleteItemAction().Name}},
	}
}
