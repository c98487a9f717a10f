package restore

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// NewCommand returns the command "restore".
func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("restore", "Work with restores",
		newCreateCommand(a), command.NewGetCommand(a, "restores", getter()), newDescribeCommand(a), newLogsCommand(a),
		newExplainCommand(a), newGraphCommand(a),
		newCancelCommand(a),
		command.NewDeleteCommand(a, "Restore", "restores", getter(), command.Deletion[velerov1.Restore]{
			Short: "Delete restores with their logs; what they have restored stays",
		}))
}

func getter() command.Getter[velerov1.Restore, *velerov1.Restore, *velerov1.RestoreList] {
	return command.Getter[velerov1.Restore, *velerov1.Restore, *velerov1.RestoreList]{
		Kind:    "Restore",
		NewList: func() *velerov1.RestoreList { return &velerov1.RestoreList{} },
		Items:   func(l *velerov1.RestoreList) *[]velerov1.Restore { return &l.Items },
		Table:   status.RestoreTable,
	}
}

func newCancelCommand(a *command.App) *cobra.Command {
	cmd := runs.NewCancelCommand(a, "restore", func() *runs.Object { return runs.Restore(&velerov1.Restore{}) })
	cmd.ValidArgsFunction = getter().Complete(a)
	return cmd
}

func newLogsCommand(a *command.App) *cobra.Command {
	cmd := runs.NewLogsCommand(a, "restore",
		func(ctx context.Context, cluster *command.Cluster, name string) (runs.LogOf, error) {
			var r velerov1.Restore
			if err := cluster.Get(ctx, cluster.Key(name), &r); err != nil {
				return runs.LogOf{}, err
			}
			location, _ := cluster.LocationOf(ctx, r.Spec.BackupName) // a file that cannot be found says so
			return runs.LogOf{Object: runs.Restore(&r), Target: velerov1.DownloadTargetKindRestoreLog,
				Began: r.Status.StartTimestamp, Location: location}, nil
		})
	cmd.ValidArgsFunction = getter().Complete(a)
	return cmd
}

func newDescribeCommand(a *command.App) *cobra.Command {
	return runs.NewDescribeCommand(a, "restore", "Describe restores: phase, errors and warnings, and with --details "+
		"what became of each object", getter(),
		func(ctx context.Context, cluster *command.Cluster, r *velerov1.Restore, files runs.Files) runs.Description {
			return Describe(ctx, cluster, r, files)
		})
}

// Describe composes the description of a restore. Problems list the missing parts.
func Describe(
	ctx context.Context, cluster *command.Cluster, r *velerov1.Restore, files runs.Files,
) *status.RestoreDescription {
	description := &status.RestoreDescription{Restore: r, Details: files.Details()}
	run := status.RestoreRun(r)
	location, _ := cluster.LocationOf(ctx, r.Spec.BackupName) // a file that cannot be found says so
	description.Results, description.Resources, description.Problems = files.Load(ctx, run,
		velerov1.DownloadTargetKindRestoreResults, velerov1.DownloadTargetKindRestoreResourceList, location)
	var problems []string
	description.Volumes, problems = runs.LoadVolumes[[]volumes.RestoreVolumeInfo](ctx, files, run,
		velerov1.DownloadTargetKindRestoreVolumeInfo, location)
	description.Problems = append(description.Problems, problems...)
	description.Order, problems = files.LoadOrder(ctx, r, isAtWork(r) && r.Status.StartTimestamp != nil, location)
	description.AtWork = isAtWork(r)
	description.Problems = append(description.Problems, problems...)
	var loads velerov1.PodVolumeRestoreList
	description.Problems = append(description.Problems, files.List(ctx, &loads, velerov1.RestoreNameLabel, r.Name)...)
	description.PodVolumes = status.PodVolumesOfRestore(loads.Items)
	var downloads velerov2alpha1.DataDownloadList
	description.Problems = append(description.Problems, files.List(ctx, &downloads, velerov1.RestoreNameLabel, r.Name)...)
	description.Movements = status.MovementsOfRestore(downloads.Items)
	now := time.Now()
	description.PodVolumes, description.Movements = status.WithPaces(description.PodVolumes,
		description.Movements, nil, now)
	description.Pace = run.Pace(nil, "", r.Status.StartTimestamp, now)
	description.Operations, problems = files.LoadOperations(ctx, run, r.UID, location)
	description.Problems = append(description.Problems, problems...)
	return description
}
