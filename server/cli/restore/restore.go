package restore

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/status"
)

// NewCommand returns the command "restore".
func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("restore", "Work with restores",
		newCreateCommand(a), command.NewGetCommand(a, "restores", getter()), newDescribeCommand(a), newLogsCommand(a))
}

func getter() command.Getter[velerov1.Restore, *velerov1.Restore, *velerov1.RestoreList] {
	return command.Getter[velerov1.Restore, *velerov1.Restore, *velerov1.RestoreList]{
		Kind:    "Restore",
		NewList: func() *velerov1.RestoreList { return &velerov1.RestoreList{} },
		Items:   func(l *velerov1.RestoreList) *[]velerov1.Restore { return &l.Items },
		Sort: func(list []velerov1.Restore) {
			slices.SortFunc(list, func(a, b velerov1.Restore) int { return cmp.Compare(a.Name, b.Name) })
		},
		Table: status.RestoreTable,
	}
}

func newLogsCommand(a *command.App) *cobra.Command {
	return runs.NewLogsCommand(a, "restore", velerov1.DownloadTargetKindRestoreLog,
		func(ctx context.Context, cluster *command.Cluster, name string) (status.Run, string, error) {
			var r velerov1.Restore
			if err := cluster.Get(ctx, cluster.Key(name), &r); err != nil {
				return status.Run{}, "", err
			}
			return status.RestoreRun(&r), backupLocation(ctx, cluster, r.Spec.BackupName), nil
		})
}

func newDescribeCommand(a *command.App) *cobra.Command {
	return runs.NewDescribeCommand(a, "restore", "Describe restores: phase, errors and warnings, and with --details what became of each object", load)
}

// load composes the description of a restore. It mentions what it cannot find out.
func load(ctx context.Context, cluster *command.Cluster, name string, files runs.Files) (runs.Description, error) {
	r := new(velerov1.Restore)
	if err := cluster.Get(ctx, cluster.Key(name), r); err != nil {
		return nil, err
	}
	getter().SetKind(r)
	description := &status.RestoreDescription{Restore: r}
	description.Results, description.Resources, description.Problems = files.Load(ctx, status.RestoreRun(r),
		velerov1.DownloadTargetKindRestoreResults, velerov1.DownloadTargetKindRestoreResourceList, backupLocation(ctx, cluster, r.Spec.BackupName))
	return description, nil
}

// backupLocation returns the name of a backup's location. It is empty if the backup cannot be read.
func backupLocation(ctx context.Context, cluster *command.Cluster, name string) string {
	var b velerov1.Backup
	if err := cluster.Get(ctx, cluster.Key(name), &b); err != nil {
		return ""
	}
	return b.Spec.StorageLocation
}
