package filestore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/plugins/internal/storetest"
	wirev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

func TestContract(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	storetest.Run(t, storetest.Fixture{
		Register: filestore.Register,
		Config: func(t *testing.T) map[string]string {
			t.Helper()
			return map[string]string{"path": root, "bucket": newBucket(t, root)}
		},
		New: func(t *testing.T) (objectstorev1.ObjectStore, string) {
			t.Helper()
			bucket := newBucket(t, root)
			return filestore.New(filestore.Config{Path: root}), bucket
		},
		Unfinished: func(t *testing.T, bucket string) []string {
			t.Helper()
			return files(t, filepath.Join(root, bucket), ".tmp")
		},
	})
}

// newBucket creates an empty bucket.
func newBucket(t *testing.T, root string) string {
	t.Helper()
	bucket, err := os.MkdirTemp(root, "bucket")
	require.NoError(t, err)
	return filepath.Base(bucket)
}

func files(t *testing.T, dir, suffix string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, suffix) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config map[string]string
		want   string
	}{
		"as the host gives it": {config: map[string]string{"path": "/backups", "bucket": "b", "prefix": "p", "caCert": "x"}},
		"no path":              {config: map[string]string{"bucket": "b"}, want: `required: missing properties: ["path"]`},
		"empty path":           {config: map[string]string{"path": ""}, want: `path: it is "", want the absolute path`},
		"relative path":        {config: map[string]string{"path": "backups"}, want: "want the absolute path"},
		"unknown key": {config: map[string]string{"path": "/backups", "region": "x"},
			want: `unknown key "region", want one of credentialsFile, path`},
		"credentials": {config: map[string]string{"path": "/backups", "credentialsFile": "/x"},
			want: "remove spec.credential"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugin := plugintest.Run(t, filestore.Register())
			_, err := wirev1.NewObjectStoreClient(plugin.Conn()).Init(t.Context(),
				&wirev1.ObjectStoreInitRequest{Plugin: filestore.Name, Config: test.config})
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestBucketsAndKeysCannotLeaveRootDirectory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "stores", "bucket"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "secret"), []byte("x"), 0o600))
	s := filestore.New(filestore.Config{Path: filepath.Join(root, "stores")})
	for _, bucket := range []string{"", ".", "..", "../stores", "bucket/..", "/etc", "a\x00b"} {
		_, err := s.ListObjects(t.Context(), &objectstorev1.ListObjectsInput{Bucket: bucket})
		require.ErrorContains(t, err, "cannot be the name of a directory", "%q", bucket)
	}
	outside := []string{"../../secret", "../secret", "a/../../../secret", "/../../secret"}
	for _, key := range outside {
		_, err := s.GetObject(t.Context(), &objectstorev1.GetObjectInput{Bucket: "bucket", Key: key})
		require.Error(t, err, key)
	}
	for _, key := range outside {
		// stored as an odd name inside, or refused
		_ = s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: "bucket", Key: key,
			Body: strings.NewReader("overwritten")})
	}
	content, err := os.ReadFile(filepath.Join(root, "secret"))
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	entries, err = os.ReadDir(filepath.Join(root, "stores"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestFilesAreReadableByOwnerOnly(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "bucket"), 0o755))
	s := filestore.New(filestore.Config{Path: root})
	require.NoError(t, s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: "bucket", Key: "backups/b/b.tar.gz",
		Body: strings.NewReader("x")}))
	for path, mode := range map[string]fs.FileMode{"backups": 0o750, "backups/b": 0o750, "backups/b/b.tar.gz": 0o640} {
		info, err := os.Stat(filepath.Join(root, "bucket", path))
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&^mode, path)
	}
}
