package deletion_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/deletion"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// repositories notes what is forgotten, by mover, location and namespace. That of namespace "locked" cannot be opened,
// and there is no mover called "vendor.io/absent". away has the mover of restic absent, too.
type repositories struct {
	forgotten map[string][]string
	away      bool
}

func (r repositories) Forget(
	_ context.Context, mover, location, namespace string, snapshots []string, _ map[string]string,
) ([]string, error) {
	switch {
	case namespace == "locked":
		return nil, errors.New("the repository is locked")
	case mover == "vendor.io/absent" || r.away:
		return nil, fmt.Errorf("%w: %s", deletion.ErrNoMover, mover)
	}
	key := mover + " " + location + "/" + namespace
	r.forgotten[key] = append(r.forgotten[key], snapshots...)
	return nil, nil
}

func ofPod(namespace, id string, engine velerov1.RepositoryType) velerov1.PodVolumeBackup {
	var b velerov1.PodVolumeBackup
	b.Spec.Pod.Namespace, b.Spec.UploaderType, b.Status.SnapshotID = namespace, engine, id
	return b
}

func ofClaim(namespace, id, mover string) velerov2alpha1.DataUpload {
	var u velerov2alpha1.DataUpload
	u.Spec.SourceNamespace, u.Spec.SourcePVC, u.Spec.DataMover, u.Status.SnapshotID = namespace, "data", mover, id
	return u
}

func TestVolumesAreForgottenByRepository(t *testing.T) {
	t.Parallel()
	old := ofPod("shop", "of-old-velero", "")
	old.Spec.RepoIdentifier = "s3:host/bucket/restic/shop"
	data := deletion.StoredByPods([]velerov1.PodVolumeBackup{
		ofPod("shop", "a", "restic"), ofPod("locked", "b", "restic"), ofPod("web", "c", "restic"), ofPod("shop", "a",
			"restic"), ofPod("shop", "", "restic"),
		ofPod("shop", "stays", "kopia"), ofPod("shop", "stays-too", ""), old,
	})
	data = append(data, deletion.StoredByUploads([]velerov2alpha1.DataUpload{
		ofClaim("shop", "d", velerov1.BuiltInDataMover), ofClaim("shop", "", velerov1.BuiltInDataMover), ofClaim("shop",
			"of-velero", "velero"), ofClaim("shop", "of-velero-too", ""),
		ofClaim("shop", "e", "vendor.io/present"), ofClaim("shop", "f", "vendor.io/absent"),
	})...)
	data = append(data, deletion.StoredByMovements([]volumes.VolumeInfo{
		{PVCNamespace: "shop", SnapshotDataMoved: true,
			DataMovement: &volumes.MovementInfo{DataMover: velerov1.BuiltInDataMover, SnapshotHandle: "d"}},
		{PVCNamespace: "far", SnapshotDataMoved: true,
			DataMovement: &volumes.MovementInfo{DataMover: velerov1.BuiltInDataMover, SnapshotHandle: "g"}},
		{PVCNamespace: "far", SnapshotDataMoved: true, DataMovement: &volumes.MovementInfo{DataMover: "velero",
			UploaderType: "kopia", SnapshotHandle: "h"}},
		{PVCNamespace: "far", SnapshotDataMoved: true,
			DataMovement: &volumes.MovementInfo{DataMover: velerov1.BuiltInDataMover}},
		{PVCNamespace: "far", CSI: &volumes.CSIInfo{SnapshotHandle: "of the storage system"}},
	})...)
	from := repositories{forgotten: map[string][]string{}}
	forgotten, _, err := deletion.ForgetVolumes(t.Context(), from, "default", data, nil, hclog.NewNullLogger())
	require.Equal(t, map[string][]string{
		"cleat.dev/restic default/shop": {"a", "of-old-velero", "d"}, "cleat.dev/restic default/web": {"c"},
		"cleat.dev/restic default/far":   {"g"},
		"vendor.io/present default/shop": {"e"},
	}, from.forgotten)
	require.Equal(t, []string{"far/g", "shop/a", "shop/of-old-velero", "shop/d", "shop/e", "web/c"}, forgotten)
	failures, ok := errors.AsType[*deletion.Failures](err)
	require.True(t, ok)
	require.Equal(t, 1, failures.Count)
	require.Contains(t, failures.Messages(),
		`remove snapshots ["b"] from the repository of namespace locked: the repository is locked`)

	forgotten, _, err = deletion.ForgetVolumes(t.Context(), from, "default", nil, nil, hclog.NewNullLogger())
	require.NoError(t, err)
	require.Empty(t, forgotten)
}

func TestMissingMoverOfTheServerKeepsTheBackup(t *testing.T) {
	t.Parallel()
	data := deletion.StoredByUploads([]velerov2alpha1.DataUpload{ofClaim("shop", "a", velerov1.BuiltInDataMover),
		ofClaim("shop", "b", "vendor.io/absent")})
	_, _, err := deletion.ForgetVolumes(t.Context(), repositories{away: true}, "default", data, nil, hclog.NewNullLogger())
	failures, ok := errors.AsType[*deletion.Failures](err)
	require.True(t, ok)
	require.Equal(t, 1, failures.Count)
	require.ErrorIs(t, failures.First[0], deletion.ErrNoMover)
}
