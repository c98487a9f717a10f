package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// atOnce is how many files are read at once.
const atOnce = 8

// BackupVolumes reads what backups have of volumes, by their UIDs.
func (d *Downloads) BackupVolumes(
	ctx context.Context, cluster *command.Cluster, backups []*velerov1.Backup,
) map[types.UID]status.BackupVolumes {
	all := map[types.UID]status.BackupVolumes{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, b := range backups {
		group.Go(func() error {
			infos, err := d.volumeInfos(ctx, cluster, b)
			found := status.BackupVolumes{Infos: infos}
			if err != nil {
				found = status.BackupVolumes{Problem: err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			all[b.UID] = found
			return nil
		})
	}
	_ = group.Wait() // problems are in the answer
	return all
}

func (d *Downloads) volumeInfos(
	ctx context.Context, cluster *command.Cluster, b *velerov1.Backup,
) (infos []volumes.VolumeInfo, err error) {
	body, err := d.OpenTarget(ctx, cluster, Target{Kind: velerov1.DownloadTargetKindBackupVolumeInfos, Name: b.Name,
		Location: b.Spec.StorageLocation})
	if errors.Is(err, ErrNoFile) {
		return nil, errors.New("it has no file about volumes")
	}
	if err != nil {
		return nil, err
	}
	infos, err = decode[[]volumes.VolumeInfo](body, d.limitsOf(velerov1.DownloadTargetKindBackupVolumeInfos))
	if err := cmp.Or(err, body.Close()); err != nil {
		return nil, fmt.Errorf("read its file about volumes: %w", err)
	}
	return infos, nil
}
