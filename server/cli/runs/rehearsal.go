package runs

import (
	"cmp"
	"context"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
)

// Rehearsal returns the report of a rehearsal of a backup, with what proves it: the digest that the cluster has noted, or
// without one, a signature of one of the keys. It returns ErrNoFile if there is none.
func (d *Downloads) Rehearsal(
	ctx context.Context, cluster *command.Cluster, b *velerov1.Backup, id, digest string, keys func() (trust.Ring, error),
) (*rehearsal.Report, error) {
	body, err := d.OpenTarget(ctx, cluster, Target{Kind: velerov1.DownloadTargetKindBackupResourceList, Name: b.Name,
		Location: b.Spec.StorageLocation, Annotations: map[string]string{velerov1.FileAnnotation: rehearsal.FileName(id)}})
	if err != nil {
		return nil, err
	}
	of := trust.ReportOf{Backup: b.Name, ID: id, Digest: digest}
	if started := b.Status.StartTimestamp; started != nil {
		of.Started = &started.Time
	}
	report, err := trust.ReadReport(body, of, keys)
	return report, cmp.Or(err, body.Close())
}
