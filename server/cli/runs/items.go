package runs

import (
	"cmp"
	"context"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
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
