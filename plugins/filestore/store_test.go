package filestore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/plugins/internal/storetest"
)

func fresh(t *testing.T) objectstorev1.ObjectStore {
	t.Helper()
	s, err := filestore.New(hclog.NewNullLogger())
	require.NoError(t, err)
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	storetest.Run(t, storetest.Fixture{
		Register: filestore.Register,
		Config: func(t *testing.T) map[string]string {
			t.Helper()
			return map[string]string{"path": root, "bucket": newBucket(t, root)}
		},
		Fresh: fresh,
		New: func(t *testing.T) (objectstorev1.ObjectStore, string) {
			t.Helper()
			bucket := newBucket(t, root)
			s := fresh(t)
			require.NoError(t, s.Init(t.Context(), map[string]string{"path": root, "bucket": bucket, "prefix": ""}))
			return s, bucket
		},
		Unfinished: func(t *testing.T, bucket string) []string {
			t.Helper()
			return files(t, filepath.Join(root, bucket), ".tmp")
		},
	})
}

// newBucket is an empty bucket.
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

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config map[string]string
		want   string
	}{
		"as the host gives it": {config: map[string]string{"path": "/backups", "bucket": "b", "prefix": "p", "caCert": "x"}},
		"no path":              {config: map[string]string{"bucket": "b"}, want: `config.path is "", want the absolute path`},
		"relative path":        {config: map[string]string{"path": "backups"}, want: "want the absolute path"},
		"unknown key":          {config: map[string]string{"path": "/backups", "region": "x"}, want: `unknown key "region"; the only key of a file store is path`},
		"credentials":          {config: map[string]string{"path": "/backups", "credentialsFile": "/x"}, want: "remove spec.credential"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fresh(t).Init(t.Context(), test.config)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestBucketsAndKeysStayInTheirDirectory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "stores", "bucket"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "secret"), []byte("x"), 0o600))
	s := fresh(t)
	require.NoError(t, s.Init(t.Context(), map[string]string{"path": filepath.Join(root, "stores")}))
	for _, bucket := range []string{"", ".", "..", "../stores", "bucket/..", "/etc", "a\x00b"} {
		_, err := s.ListObjects(t.Context(), bucket, "")
		require.ErrorContains(t, err, "cannot be the name of a directory", "%q", bucket)
	}
	outside := []string{"../../secret", "../secret", "a/../../../secret", "/../../secret"}
	for _, key := range outside {
		_, err := s.GetObject(t.Context(), "bucket", key)
		require.Error(t, err, key)
	}
	for _, key := range outside {
		_ = s.PutObject(t.Context(), "bucket", key, strings.NewReader("overwritten")) // stored as an odd name inside, or refused
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

func TestFilesAreNotForEverybody(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "bucket"), 0o755))
	s := fresh(t)
	require.NoError(t, s.Init(t.Context(), map[string]string{"path": root}))
	require.NoError(t, s.PutObject(t.Context(), "bucket", "backups/b/b.tar.gz", strings.NewReader("x")))
	for path, mode := range map[string]fs.FileMode{"backups": 0o750, "backups/b": 0o750, "backups/b/b.tar.gz": 0o640} {
		info, err := os.Stat(filepath.Join(root, "bucket", path))
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&^mode, path)
	}
}
