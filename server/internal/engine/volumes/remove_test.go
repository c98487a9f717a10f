package volumes

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
)

// repositories notes what is forgotten, by mover, location and namespace. That of namespace "locked" cannot be opened,
// and there is no mover called "vendor.io/absent". away has the mover of restic absent, too. Snapshots whose id is
// "foreign" do not have the tags that are required.
type repositories struct {
	forgotten map[string][]string
	away      bool
}

func (r repositories) Forget(
	_ context.Context, mover, location, namespace string, snapshots []string, tags map[string]string,
) (kept []string, err error) {
	switch {
	case namespace == "locked":
		return nil, errors.New("the repository is locked")
	case mover == "vendor.io/absent" || r.away:
		return nil, fmt.Errorf("%w: %s", ErrNoMover, mover)
	case mover == "vendor.io/present" && tags != nil:
		return nil, errors.New("the mover of a vendor need not look at tags")
	}
	key := mover + " " + location + "/" + namespace
	for _, id := range snapshots {
		if id == "foreign" && tags != nil {
			kept = append(kept, id)
		} else {
			r.forgotten[key] = append(r.forgotten[key], id)
		}
	}
	return kept, nil
}

func ofPod(namespace, id string, engine velerov1.RepositoryType) stored {
	var b velerov1.PodVolumeBackup
	b.Spec.Pod.Namespace, b.Spec.UploaderType, b.Status.SnapshotID = namespace, engine, id
	return storedByPod(&b)
}

func ofClaim(namespace, id, mover string) stored {
	var u velerov2alpha1.DataUpload
	u.Spec.SourceNamespace, u.Spec.SourcePVC, u.Spec.DataMover, u.Status.SnapshotID = namespace, "data", mover, id
	return storedByUpload(&u)
}

func TestVolumesAreForgottenByRepository(t *testing.T) {
	t.Parallel()
	var old velerov1.PodVolumeBackup
	old.Spec.Pod.Namespace, old.Spec.RepoIdentifier = "shop", "s3:host/bucket/restic/shop"
	old.Status.SnapshotID = "of-old-velero"
	data := []stored{
		ofPod("shop", "a", "restic"), ofPod("locked", "b", "restic"), ofPod("web", "c", "restic"),
		ofPod("shop", "a", "restic"), ofPod("shop", "", "restic"), ofPod("shop", "k", "kopia"),
		ofPod("shop", "k-too", ""), ofPod("shop", "stays", "tape"), storedByPod(&old),
		ofClaim("shop", "d", velerov1.ResticDataMover), ofClaim("shop", "", velerov1.ResticDataMover),
		ofClaim("shop", "of-velero", "velero"), ofClaim("shop", "of-velero-too", ""),
		ofClaim("shop", "e", "vendor.io/present"), ofClaim("shop", "f", "vendor.io/absent"),
	}
	moved := func(namespace, mover, id string) VolumeInfo {
		return VolumeInfo{PVCNamespace: namespace, SnapshotDataMoved: true,
			DataMovement: &MovementInfo{DataMover: mover, SnapshotHandle: id}}
	}
	data = append(data, storedByMovements([]VolumeInfo{
		moved("shop", velerov1.ResticDataMover, "d"), moved("far", velerov1.ResticDataMover, "g"),
		moved("far", "velero", "h"), moved("far", velerov1.ResticDataMover, ""),
		{PVCNamespace: "far", CSI: &CSIInfo{SnapshotHandle: "of the storage system"}},
	})...)
	from := repositories{forgotten: map[string][]string{}}
	var done Removed
	require.NoError(t, (&Hub{Repositories: from}).forget(t.Context(), "default", data, nil, &done, hclog.NewNullLogger()))
	require.Equal(t, map[string][]string{
		"cleat.dev/restic default/shop": {"a", "of-old-velero", "d"}, "cleat.dev/restic default/web": {"c"},
		"cleat.dev/restic default/far":   {"g"},
		"cleat.dev/kopia default/shop":   {"k", "k-too", "of-velero", "of-velero-too"},
		"cleat.dev/kopia default/far":    {"h"},
		"vendor.io/present default/shop": {"e"},
	}, from.forgotten)
	require.Equal(t, []string{"far/h", "far/g", "shop/k", "shop/k-too", "shop/of-velero", "shop/of-velero-too",
		"shop/a", "shop/of-old-velero", "shop/d", "shop/e", "web/c"}, done.Snapshots)
	require.Empty(t, done.Kept)
	require.Len(t, done.Failed, 1)
	require.EqualError(t, done.Failed[0],
		`remove snapshots ["b"] from the repository of namespace locked: the repository is locked`)
}

// TestDataWithoutProofIsKept has files that may be anybody's: they name data of others, and data of a mover that does
// not look at tags.
func TestDataWithoutProofIsKept(t *testing.T) {
	t.Parallel()
	inFile := storedOfClaim("vendor.io/present", "shop", "data", "named-only")
	from := repositories{forgotten: map[string][]string{}}
	var done Removed
	require.NoError(t, (&Hub{Repositories: from}).forget(t.Context(), "default", []stored{
		ofPod("shop", "own", "restic"), ofPod("shop", "foreign", "restic"), inFile,
		ofClaim("shop", "proven", "vendor.io/present"), storedOfClaim("vendor.io/present", "shop", "data", "proven"),
	}, map[string]string{"backup-uid": "u"}, &done, hclog.NewNullLogger()))
	require.Equal(t, map[string][]string{
		"cleat.dev/restic default/shop": {"own"}, "vendor.io/present default/shop": {"proven"},
	}, from.forgotten)
	require.Equal(t, Removed{
		Snapshots: []string{"shop/own", "shop/proven"},
		Kept: []string{
			`data snapshot "named-only" in the repository vendor.io/present of namespace "shop"`,
			`data snapshot "foreign" in the repository cleat.dev/restic of namespace "shop"`,
		},
	}, done)
}

func TestMissingMoverOfTheServerKeepsTheBackup(t *testing.T) {
	t.Parallel()
	var done Removed
	require.NoError(t, (&Hub{Repositories: repositories{away: true}}).forget(t.Context(), "default", []stored{
		ofClaim("shop", "a", velerov1.ResticDataMover), ofClaim("shop", "b", "vendor.io/absent"),
	}, nil, &done, hclog.NewNullLogger()))
	require.Len(t, done.Failed, 1)
	require.ErrorIs(t, done.Failed[0], ErrNoMover)
}
