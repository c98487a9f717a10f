package backup

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

func newDescribeCommand(a *command.App) *cobra.Command {
	return runs.NewDescribeCommand(a, "backup", "Describe backups: phase, errors and warnings, and with --details what "+
		"is in them", getter(),
		func(ctx context.Context, cluster *command.Cluster, b *velerov1.Backup, files runs.Files) runs.Description {
			return Describe(ctx, cluster, b, files)
		})
}

// Describe composes the description of a backup. Problems list the missing parts.
func Describe(
	ctx context.Context, cluster *command.Cluster, b *velerov1.Backup, files runs.Files,
) *status.BackupDescription {
	description := status.NewBackupDescription(b)
	description.Details = files.Details()
	if description.QueueWait != nil {
		if line, err := cluster.Queue(ctx); err != nil {
			description.Problems = append(description.Problems, err.Error())
		} else {
			description.Starts = status.Explain(b, line, nil, time.Now()).Starts
		}
	}
	run := status.BackupRun(b)
	found, resources, problems := files.Load(ctx, run,
		velerov1.DownloadTargetKindBackupResults, velerov1.DownloadTargetKindBackupResourceList, b.Spec.StorageLocation)
	description.Results, description.Resources = found, resources
	description.Problems = append(description.Problems, problems...)
	description.Volumes, problems = runs.LoadVolumes[[]volumes.VolumeInfo](ctx, files, run,
		velerov1.DownloadTargetKindBackupVolumeInfos, b.Spec.StorageLocation)
	description.Problems = append(description.Problems, problems...)
	description.Operations, problems = files.LoadOperations(ctx, run, b.UID, b.Spec.StorageLocation)
	description.Problems = append(description.Problems, problems...)

	var loads velerov1.PodVolumeBackupList
	description.Problems = append(description.Problems, files.List(ctx, &loads, velerov1.BackupNameLabel, b.Name)...)
	description.PodVolumes = status.PodVolumesOfBackup(loads.Items)
	var uploads velerov2alpha1.DataUploadList
	description.Problems = append(description.Problems, files.List(ctx, &uploads, velerov1.BackupNameLabel, b.Name)...)
	description.Movements = status.MovementsOfBackup(uploads.Items)
	now := time.Now()
	description.PodVolumes, description.Movements = status.WithPaces(description.PodVolumes,
		description.Movements, nil, now)
	description.Pace = run.Pace(nil, "", b.Status.StartTimestamp, now)
	var requests velerov1.DeleteBackupRequestList
	description.Problems = append(description.Problems, files.List(ctx, &requests, velerov1.BackupNameLabel, b.Name)...)
	description.AddDeletions(requests.Items)
	return description
}
