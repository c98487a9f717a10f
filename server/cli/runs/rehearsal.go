package runs

import (
	"cmp"
	"context"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
)

// Rehearsal returns the report of a rehearsal of a backup. It returns ErrNoFile if there is none.
func (d *Downloads) Rehearsal(
	ctx context.Context, cluster *command.Cluster, b *velerov1.Backup, id string,
) (*rehearsal.Report, error) {
	body, err := d.OpenTarget(ctx, cluster, Target{Kind: velerov1.DownloadTargetKindBackupResourceList, Name: b.Name,
		Location: b.Spec.StorageLocation, Annotations: map[string]string{velerov1.FileAnnotation: rehearsal.FileName(id)}})
	if err != nil {
		return nil, err
	}
	report, err := rehearsal.Read(body)
	return report, cmp.Or(err, body.Close())
}
