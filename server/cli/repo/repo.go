package repo

import (
	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
)

// NewCommand returns the command "repo".
func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("repo", "Work with backup repositories, which hold the data of volumes",
		command.NewGetCommand(a, "backup repositories", command.Getter[velerov1.BackupRepository, *velerov1.BackupRepository,
			*velerov1.BackupRepositoryList]{
			Kind:    "BackupRepository",
			NewList: func() *velerov1.BackupRepositoryList { return &velerov1.BackupRepositoryList{} },
			Items:   func(l *velerov1.BackupRepositoryList) *[]velerov1.BackupRepository { return &l.Items },
			Table:   status.RepositoryTable,
		}))
}
