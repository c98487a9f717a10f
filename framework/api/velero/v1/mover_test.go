package v1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestMoversHaveEngines(t *testing.T) {
	t.Parallel()
	for mover, want := range map[string]struct {
		engine  v1.RepositoryType
		mover   string // of the engine
		builtIn bool
		stored  string // name in the files of a backup
	}{
		v1.BuiltInDataMover:  {v1.RepositoryTypeRestic, v1.BuiltInDataMover, true, v1.BuiltInDataMover},
		v1.KopiaDataMover:    {v1.RepositoryTypeKopia, v1.KopiaDataMover, true, "velero"},
		"velero":             {v1.RepositoryTypeKopia, v1.KopiaDataMover, false, "velero"},
		"":                   {v1.RepositoryTypeKopia, v1.KopiaDataMover, false, "velero"},
		"vendor.io/of-disks": {"", "", false, "vendor.io/of-disks"},
	} {
		require.Equal(t, want.engine, v1.EngineOf(mover), mover)
		require.Equal(t, want.mover, v1.MoverOf(v1.EngineOf(mover)), mover)
		require.Equal(t, want.stored, v1.StoredDataMover(mover), mover)
		require.Equal(t, want.builtIn, v1.IsBuiltInMover(mover), mover)
	}
	for want, spec := range map[v1.RepositoryType]v1.PodVolumeBackupSpec{
		v1.RepositoryTypeRestic: {RepoIdentifier: "s3:host/bucket/restic/shop"},
		v1.RepositoryTypeKopia:  {},
		"another":               {UploaderType: "another", RepoIdentifier: "any"},
	} {
		require.Equal(t, want, spec.Engine())
	}
}
