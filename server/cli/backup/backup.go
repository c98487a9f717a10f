package backup

import (
	"context"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
)

// NewCommand returns the command "backup".
func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("backup", "Work with backups",
		newCreateCommand(a), command.NewGetCommand(a, "backups", getter()), newDescribeCommand(a), newLogsCommand(a),
		newDownloadCommand(a), newRehearseCommand(a), newRehearsalsCommand(a), newUnsealCommand(a), newVerifyCommand(a),
		newCancelCommand(a), newHoldCommand(a), newReleaseCommand(a), newDeleteCommand(a))
}

func getter() command.Getter[velerov1.Backup, *velerov1.Backup, *velerov1.BackupList] {
	return command.Getter[velerov1.Backup, *velerov1.Backup, *velerov1.BackupList]{
		Kind:    "Backup",
		NewList: func() *velerov1.BackupList { return &velerov1.BackupList{} },
		Items:   func(l *velerov1.BackupList) *[]velerov1.Backup { return &l.Items },
		Sort:    status.SortBackups,
		Table:   status.BackupTable,
	}
}

func newCancelCommand(a *command.App) *cobra.Command {
	cmd := runs.NewCancelCommand(a, "backup", func() *runs.Object { return runs.Backup(&velerov1.Backup{}) })
	cmd.ValidArgsFunction = getter().Complete(a)
	return cmd
}

func newLogsCommand(a *command.App) *cobra.Command {
	cmd := runs.NewLogsCommand(a, "backup",
		func(ctx context.Context, cluster *command.Cluster, name string) (runs.LogOf, error) {
			var b velerov1.Backup
			err := cluster.Get(ctx, cluster.Key(name), &b)
			return runs.LogOf{Object: runs.Backup(&b), Target: velerov1.DownloadTargetKindBackupLog,
				Began: b.Status.StartTimestamp, Location: b.Spec.StorageLocation}, err
		})
	cmd.ValidArgsFunction = getter().Complete(a)
	return cmd
}
