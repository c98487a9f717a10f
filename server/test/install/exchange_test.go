package install_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/velero"
	"github.com/cleat-dev/cleat/server/test/world"
)

// backUpWorld creates a backup of a world with its cluster-scoped objects.
func backUpWorld(s *site.Site, name, prefix string) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: velerov1.BackupSpec{
			IncludedNamespaces: []string{prefix + "-*"}, IncludeClusterResources: new(true),
		},
	}))
	require.Zero(s.T, s.AwaitBackup(name, velerov1.BackupPhaseCompleted).Status.Errors)
}

// longestFileName is the limit of file systems. Velero unpacks a backup into a file for each object.
const longestFileName = 255

// TestAcceptRestore_ExchangeWithVelero backs up a world with Velero and with cleat, each in an installation of its own
// on one bucket, through the same plugin. Each finds the backup of the other and restores it after the world was
// deleted, and all objects are the same as before.
func TestAcceptRestore_ExchangeWithVelero(t *testing.T) {
	t.Parallel()
	veleros, v := newVeleroSite(t)
	stopped := veleroDeployment(veleros, "velero/velero:"+velero.Version, "server") // Velero reads it before a restore
	stopped.Spec.Replicas = new(int32)
	require.NoError(t, veleros.Client.Create(t.Context(), stopped))
	cleats := site.NewIn(t, veleros.Cluster, "aws")
	cleats.BucketDir = veleros.BucketDir
	cleats.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.ObjectStorage.Bucket = filepath.Base(veleros.BucketDir)
	})
	cleats.Serve("--plugin-dir", v.PluginDir, "--backup-sync-period", "1s")

	client, err := world.NewClient(veleros.Kubeconfig)
	require.NoError(t, err)
	spec := world.Spec{Prefix: "swap", Namespaces: 2, ConfigMaps: 10, Secrets: 5, Large: 1, LargeBytes: 600 << 10}
	objects := slices.DeleteFunc(world.Build(spec), func(o world.Object) bool {
		return len(o.GetName()+".json") > longestFileName // Velero cannot restore a backup with such a name
	})
	require.NoError(t, client.Create(t.Context(), objects, new(atomic.Int64)))
	before, err := client.Settled(t.Context(), spec)
	require.NoError(t, err)
	cleats.Available()
	backUpWorld(cleats, "of-cleat", spec.Prefix)
	serveVelero(veleros, v) // it lists the bucket when it starts, and then each minute
	veleros.Available()
	backUpWorld(veleros, "of-velero", spec.Prefix)

	for _, restorer := range []struct {
		*site.Site
		backup string
	}{{cleats, "of-velero"}, {veleros, "of-cleat"}} {
		restorer.AwaitBackup(restorer.backup, velerov1.BackupPhaseCompleted) // brought from the bucket
		require.NoError(t, client.Delete(t.Context(), objects))
		require.NoError(t, restorer.Client.Create(t.Context(), &velerov1.Restore{
			ObjectMeta: metav1.ObjectMeta{Namespace: restorer.Namespace, Name: restorer.backup},
			Spec:       velerov1.RestoreSpec{BackupName: restorer.backup},
		}))
		require.Zero(t, restorer.AwaitRestore(restorer.backup, velerov1.RestorePhaseCompleted).Status.Errors)
		after, err := client.Settled(t.Context(), spec)
		require.NoError(t, err)
		for _, difference := range world.Compare(before, after) {
			if restorer.Site == veleros && strings.HasPrefix(difference.Object, "Namespace ") &&
				difference.Path == "metadata.managedFields" {
				continue // Velero creates namespaces in its own name
			}
			t.Errorf("after the restore of %s: %s", restorer.backup, difference)
		}
	}
}
