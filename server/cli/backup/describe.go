package backup

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/status"
)

func newDescribeCommand(a *command.App) *cobra.Command {
	return runs.NewDescribeCommand(a, "backup", "Describe backups: phase, errors and warnings, and with --details what is in them", load)
}

// load composes the description of a backup. It mentions what it cannot find out.
func load(ctx context.Context, cluster *command.Cluster, name string, files runs.Files) (runs.Description, error) {
	b := new(velerov1.Backup)
	if err := cluster.Get(ctx, cluster.Key(name), b); err != nil {
		return nil, err
	}
	getter().SetKind(b)
	description := status.NewBackupDescription(b)
	if description.QueueWait != nil {
		if line, err := cluster.Queue(ctx); err != nil {
			description.Problems = append(description.Problems, err.Error())
		} else {
			description.Starts = status.Explain(b, line, nil, time.Now()).Starts
		}
	}
	found, resources, problems := files.Load(ctx, status.BackupRun(b),
		velerov1.DownloadTargetKindBackupResults, velerov1.DownloadTargetKindBackupResourceList, b.Spec.StorageLocation)
	description.Results, description.Resources = found, resources
	description.Problems = append(description.Problems, problems...)

	var requests velerov1.DeleteBackupRequestList
	err := cluster.List(ctx, &requests, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{velerov1.BackupNameLabel: velerov1.ValidLabelValue(name)})
	if err != nil {
		description.Problems = append(description.Problems, err.Error())
	}
	description.AddDeletions(requests.Items)
	return description, nil
}
