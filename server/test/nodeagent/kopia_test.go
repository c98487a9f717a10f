package nodeagent_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// TestAcceptVolumes_Kopia backs up the volumes of a pod with each engine, has an agent with both data movers, and
// restores each volume by the one that has stored it. The deletion of a backup removes what kopia has stored.
func TestAcceptVolumes_Kopia(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 1)
	f.useRestic()
	f.addKopia()
	shop, db := f.shop()
	agent := f.runAgent()
	server := f.serve()
	spec := velerov1.BackupSpec{IncludedNamespaces: []string{shop}}
	require.Equal(t, velerov1.BackupPhaseCompleted, f.backUp("b-restic", spec).Status.Phase)
	server.kill()
	f.serverArgs = nil
	serving := f.serve()
	b := f.backUp("b", spec)
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, f.results("backups", "b"))
	require.FileExists(t, filepath.Join(f.bucket, "kopia", shop, "udmrepo.Repository"))
	var known velerov1.BackupRepository
	require.NoError(t, f.client.Get(t.Context(),
		client.ObjectKey{Namespace: f.namespace, Name: shop + "-objects-kopia"}, &known))
	require.Equal(t, velerov1.BackupRepositoryPhaseReady, known.Status.Phase)
	var stored []velerov1.PodVolumeBackup
	f.read(&stored, "backups", "b", "b-podvolumebackups.json.gz")
	require.Len(t, stored, 2)
	for _, load := range stored {
		require.Equal(t, velerov1.RepositoryTypeKopia, load.Spec.UploaderType)
		require.Regexp(t, "^[0-9a-f]{32}$", load.Status.SnapshotID)
	}
	require.Len(t, regexp.MustCompile(`plugin process started: .*plugin=cleat.dev/kopia`).FindAllString(
		agent.log.String(), -1), 1, "one process creates the repository and moves both volumes")
	var infos []volumes.VolumeInfo
	f.read(&infos, "backups", "b", "b-volumeinfo.json.gz")
	for _, info := range infos {
		require.Equal(t, volumes.Succeeded, info.Result)
		require.Equal(t, "kopia", info.PodVolume.UploaderType)
		require.NotZero(t, info.PodVolume.Size)
	}
	again := f.backUp("again", spec)
	require.Equal(t, velerov1.BackupPhaseCompleted, again.Status.Phase, f.results("backups", "again"))

	f.restoreInto(t, "b", "restored", "restored-"+f.namespace, db)
	f.restoreInto(t, "b-restic", "of-restic", "of-restic-"+f.namespace, db)

	out, err := f.cleat("backup", "delete", "b", "--confirm")
	require.NoError(t, err, out)
	f.retry("the backup is deleted", func(ctx context.Context) error {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(b), &velerov1.Backup{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists, or cannot be read: %w", err)
		}
		return nil
	})
	removed := serving.log.String()
	for _, load := range stored {
		require.Regexp(t, `removed snapshots from a repository: .*mover=cleat.dev/kopia .*`+load.Status.SnapshotID+`.* kept=\[\]`,
			removed)
	}
}
