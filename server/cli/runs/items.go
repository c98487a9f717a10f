package runs

import (
	"cmp"
	"context"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

// Items calls use for each item of a restore or dry run that has ended, and returns the rest of its file. It returns
// ErrNoFile if there is none.
func (d *Downloads) Items(
	ctx context.Context, cluster *command.Cluster, r *velerov1.Restore, location string, use func(outcome.Item) error,
) (outcome.Content, error) {
	file := outcome.FileName
	if velerov1.IsDryRun(r) {
		file = dryrun.FileName
	}
	body, err := d.OpenTarget(ctx, cluster, Target{Kind: velerov1.DownloadTargetKindRestoreResourceList, Name: r.Name,
		Location: location, Annotations: map[string]string{velerov1.FileAnnotation: file}})
	if err != nil {
		return outcome.Content{}, err
	}
	content, err := outcome.Read(body, use)
	return content, cmp.Or(err, body.Close())
}

// Collection returns the result of a dry run of a backup that has ended, and its errors and warnings.
func (d *Downloads) Collection(
	ctx context.Context, cluster *command.Cluster, b *velerov1.Backup,
) (found dryrun.Collection, messages results.Results, err error) {
	found, err = fetchTarget[dryrun.Collection](ctx, d, cluster, Target{
		Kind: velerov1.DownloadTargetKindBackupResourceList, Name: b.Name, Location: b.Spec.StorageLocation,
		Annotations: map[string]string{velerov1.FileAnnotation: dryrun.FileName}})
	if err == nil {
		messages, err = d.Results(ctx, cluster, velerov1.DownloadTargetKindBackupResults, b.Name, b.Spec.StorageLocation)
	}
	return found, messages, err
}

// Results returns the errors and warnings of a backup or restore. kind is that of their file.
func (d *Downloads) Results(
	ctx context.Context, cluster *command.Cluster, kind velerov1.DownloadTargetKind, name, location string,
) (results.Results, error) {
	return fetch[results.Results](ctx, d, cluster, kind, name, location)
}
