package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

func TestMoversSeeRepositoriesOfBucketsThatExist(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	repository := datamover.Repository{Provider: filestore.Name, Config: map[string]string{"path": store, "bucket": "b"},
		Path: "restic/shop"}
	bucket := filepath.Join(store, "b")
	added := func(create bool) (paths []string, err error) {
		f := files{repository: &repository, create: create}
		defer f.close()
		err = f.addRepository(true)
		for _, m := range f.mounts {
			paths = append(paths, m.Path)
		}
		return paths, err
	}

	_, err := added(true)
	require.ErrorContains(t, err, "there is no directory "+bucket+" on this node; mount the bucket")
	require.NoDirExists(t, bucket)
	paths, err := added(false)
	require.NoError(t, err)
	require.Empty(t, paths, "the mover sees that the bucket is missing")

	require.NoError(t, os.Mkdir(bucket, 0o700))
	paths, err = added(false)
	require.NoError(t, err)
	require.Equal(t, []string{bucket}, paths, "the mover sees that the repository is missing")
	for _, create := range []bool{true, false} {
		paths, err = added(create)
		require.NoError(t, err)
		require.Equal(t, []string{filepath.Join(bucket, "restic/shop")}, paths)
	}
}
