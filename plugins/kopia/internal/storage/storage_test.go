package storage_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/blob/s3"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

var plane = controlplane.Shared{Common: true}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

func TestStorageInS3TakesUpNewCredentials(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	at, err := url.Parse(c.S3.Endpoint)
	require.NoError(t, err)
	right := storage.Keys{AccessKeyID: c.S3.AccessKey, SecretAccessKey: c.S3.SecretKey}
	now := right
	st, err := storage.OpenS3(t.Context(), s3.Options{
		BucketName: c.NewBucket(t, "keys"), Prefix: "p/", Endpoint: at.Host, DoNotUseTLS: at.Scheme == "http",
		Region: c.S3.Region,
	}, func(context.Context) (storage.Keys, error) { return now, nil })
	require.NoError(t, err)
	require.Empty(t, st.ConnectionInfo().Config.(*s3.Options).SecretAccessKey)
	list := func() (names []blob.ID, err error) {
		err = st.ListBlobs(t.Context(), "", func(found blob.Metadata) error {
			names = append(names, found.BlobID)
			return nil
		})
		return names, err
	}
	_, err = list()
	require.NoError(t, err)
	now.SecretAccessKey = "another"
	_, err = list()
	require.Error(t, err)
	now = right
	_, err = list()
	require.NoError(t, err)
}

func TestRegisteredStorageIsFoundUntilItIsClosed(t *testing.T) {
	t.Parallel()
	inner, err := storage.OpenDirectory(t.Context(), filepath.Join(t.TempDir(), "new"), true)
	require.NoError(t, err)
	registered := storage.Register(inner)
	found, err := blob.NewStorage(t.Context(), registered.ConnectionInfo(), false)
	require.NoError(t, err)
	require.Same(t, registered, found)
	require.NoError(t, registered.Close(t.Context()))
	_, err = blob.NewStorage(t.Context(), registered.ConnectionInfo(), false)
	require.ErrorContains(t, err, "no storage is registered")
	_, err = storage.OpenDirectory(t.Context(), filepath.Join(t.TempDir(), "absent"), false)
	require.ErrorIs(t, err, storage.ErrNowhere)
}
