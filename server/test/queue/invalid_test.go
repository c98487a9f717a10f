package queue_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptQueue_InvalidHoldsNothing has backups that can never start while another one runs that they overlap. Each
// fails its validation at once, so that a backup which overlaps only them starts beside the running one.
func TestAcceptQueue_InvalidHoldsNothing(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(3)
	free := s.Workload(1)
	s.Serve("--concurrent-backups", "2")
	s.Available()
	closed := &velerov1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "closed"}}
	var open velerov1.BackupStorageLocation
	require.NoError(t, s.Client.Get(t.Context(), s.Key("default"), &open))
	closed.Spec = *open.Spec.DeepCopy()
	closed.Spec.AccessMode, closed.Spec.Default = velerov1.BackupStorageLocationAccessModeReadOnly, false
	require.NoError(t, s.Client.Create(t.Context(), closed))
	s.Eventually("the other location is validated", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("closed"), closed)
		return closed.Status.Phase == velerov1.BackupStorageLocationPhaseAvailable, err
	})

	s.InTheMiddle(g, "running")
	lost := &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "lost"}
	for name, tt := range map[string]struct {
		change func(*velerov1.BackupSpec)
		want   string
	}{
		"nowhere": {func(b *velerov1.BackupSpec) { b.StorageLocation = "nope" },
			`backup storage location "nope", named in spec.storageLocation, does not exist`},
		"read-only": {func(b *velerov1.BackupSpec) { b.StorageLocation = "closed" }, "is currently in read-only mode"},
		"no-snapshots": {func(b *velerov1.BackupSpec) { b.VolumeSnapshotLocations = []string{"nope"} },
			`volume snapshot location "nope"`},
		"no-policy": {func(b *velerov1.BackupSpec) { b.ResourcePolicy = lost }, "/lost does not exist"},
		"contradiction": {func(b *velerov1.BackupSpec) { b.ExcludedNamespaces = []string{free} },
			"excludes list cannot contain an item in the includes list"},
	} {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
			Spec: velerov1.BackupSpec{IncludedNamespaces: []string{s.Shop, free}, IncludedResources: s.Resources}}
		tt.change(&b.Spec)
		require.NoError(t, s.Client.Create(t.Context(), b))
		b = s.AwaitBackup(name, velerov1.BackupPhaseFailedValidation)
		require.Len(t, b.Status.ValidationErrors, 1, name)
		require.Contains(t, b.Status.ValidationErrors[0], tt.want)
		require.Zero(t, b.Status.QueuePosition)
		require.NotNil(t, b.Status.Expiration, "it expires as others do")
	}
	s.BeginBackupOf("beside", free)
	s.AwaitBackup("beside", velerov1.BackupPhaseCompleted)
	require.Equal(t, velerov1.BackupPhaseInProgress, s.Backup("running").Status.Phase)
	g.Disarm()
	s.AwaitBackup("running", velerov1.BackupPhaseCompleted)
}
