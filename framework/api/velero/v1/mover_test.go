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
		v1.ResticDataMover:   {v1.RepositoryTypeRestic, v1.ResticDataMover, true, v1.ResticDataMover},
		v1.KopiaDataMover:    {v1.RepositoryTypeKopia, v1.KopiaDataMover, true, "velero"},
		"velero":             {v1.RepositoryTypeKopia, v1.KopiaDataMover, false, "velero"},
		"":                   {v1.RepositoryTypeKopia, v1.KopiaDataMover, false, "velero"},
		"velero-fs":          {v1.RepositoryTypeKopia, v1.KopiaDataMover, false, "velero"},
		"velero-block":       {v1.RepositoryTypeKopia, v1.KopiaDataMover, false, "velero"},
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

func TestKopiaIsTheDefault(t *testing.T) {
	t.Parallel()
	for annotation, want := range map[string]v1.RepositoryType{
		"": v1.RepositoryTypeKopia, "kopia": v1.RepositoryTypeKopia, "restic": v1.RepositoryTypeRestic,
	} {
		b := new(v1.Backup)
		b.Annotations = map[string]string{v1.UploaderTypeAnnotation: annotation}
		require.Equal(t, want, v1.UploaderOf(b), annotation)
	}
	require.Equal(t, v1.RepositoryTypeKopia, v1.UploaderOf(new(v1.Backup)))
	for _, velero := range []string{"", "velero"} {
		require.Equal(t, v1.KopiaDataMover, v1.DataMoverFor(velero, v1.DefaultUploader))
		require.Equal(t, v1.ResticDataMover, v1.DataMoverFor(velero, v1.RepositoryTypeRestic))
	}
	require.Equal(t, "vendor.io/of-disks", v1.DataMoverFor("vendor.io/of-disks", v1.DefaultUploader))
}
