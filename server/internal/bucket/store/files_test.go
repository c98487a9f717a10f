package store_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

func TestArtifactCannotHaveTheNameOfAnotherFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"manifest.json.gz", "items.jsonl", "images.parquet", "a", "csi.json", "logs",
		"results.gz.txt", "tar.gz.json"} {
		require.NoError(t, store.CheckArtifact(name), name)
	}
	for _, name := range []string{
		"logs.gz", "results.gz", "resource-list.json.gz", "itemoperations.json.gz", "volumeinfo.json.gz",
		"podvolumebackups.json.gz",
		"volumesnapshots.json.gz", "csi-volumesnapshots.json.gz", "csi-volumesnapshotclasses.json.gz", "velero-backup.json",
		"x.tar.gz", "x.tgz", "", "..", "../x", "a/b", "A", "é", "-", strings.Repeat("a", 129),
	} {
		require.Error(t, store.CheckArtifact(name), name)
	}
}

func TestArtifactsAreStoredBesideTheArchiveAndGoWithTheBackup(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "p")
	upload, err := s.BeginBackup(t.Context(), "b", t.TempDir())
	require.NoError(t, err)
	require.NoError(t, upload.PutArtifacts(t.Context(), "u", map[string]io.ReadSeeker{
		"manifest.json.gz": strings.NewReader("m"), "items.jsonl": strings.NewReader("i"),
	}))
	require.ErrorContains(t,
		upload.PutArtifacts(t.Context(), "u", map[string]io.ReadSeeker{"logs.gz": strings.NewReader("x")}),
		"logs.gz is the name of a file")
	require.NoError(t, upload.Commit(t.Context(), store.Artifacts{Metadata: []byte(`{"metadata":{"uid":"u"}}`)}))
	require.Equal(t, []string{"p/backups/b/b-items.jsonl", "p/backups/b/b-manifest.json.gz", "p/backups/b/b.tar.gz",
		"p/backups/b/velero-backup.json"}, objects.keys("bucket"))

	read, err := s.Artifact(t.Context(), "b", "manifest.json.gz")
	require.NoError(t, err)
	content, err := io.ReadAll(read)
	require.NoError(t, errors.Join(err, read.Close()))
	require.Equal(t, "m", string(content))
	_, err = s.Artifact(t.Context(), "b", "none")
	require.ErrorIs(t, err, store.ErrNotFound)
	list := velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupResourceList, Name: "b"}
	url, err := s.SignedURL(t.Context(), store.File{DownloadTarget: list, Artifact: "manifest.json.gz"}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "https://objects.test/bucket/p/backups/b/b-manifest.json.gz?ttl=1m0s", url)
	for _, file := range []store.File{
		{DownloadTarget: list, Artifact: "../x"}, {DownloadTarget: list, Artifact: "logs.gz"},
		{DownloadTarget: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupContents, Name: "b"},
			Artifact: "manifest.json.gz"},
		{DownloadTarget: velerov1.DownloadTarget{Kind: list.Kind, Name: "../b"}, Artifact: "manifest.json.gz"},
	} {
		_, err := s.SignedURL(t.Context(), file, time.Minute)
		require.Error(t, err, file)
	}

	_, err = s.BeginBackup(t.Context(), "b", t.TempDir())
	require.ErrorIs(t, err, store.ErrBackupExists)
	require.NoError(t, s.DeleteBackup(t.Context(), "b"))
	require.Empty(t, objects.keys("bucket"))
}

func TestAbortRemovesArtifacts(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "")
	upload, err := s.BeginBackup(t.Context(), "b", t.TempDir())
	require.NoError(t, err)
	require.NoError(t, upload.PutArtifacts(t.Context(), "u",
		map[string]io.ReadSeeker{"items.jsonl": strings.NewReader("i")}))
	require.NoError(t, upload.Abort(t.Context(), nil, nil))
	require.Empty(t, objects.keys("bucket"))
}

// TestArtifactsAreStoredAllOrNone has an object store that does not take one of two files.
func TestArtifactsAreStoredAllOrNone(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	full := errors.New("full")
	s := store.New(refusing{objects, "b-two", full}, "bucket", "")
	upload, err := s.BeginBackup(t.Context(), "b", t.TempDir())
	require.NoError(t, err)
	files := map[string]io.ReadSeeker{"one": strings.NewReader("1"), "two": strings.NewReader("2")}
	require.ErrorIs(t, upload.PutArtifacts(t.Context(), "u", files), full)
	require.Empty(t, objects.keys("bucket"))
	require.NoError(t, upload.Commit(t.Context(), store.Artifacts{Metadata: []byte(`{"metadata":{"uid":"u"}}`)}),
		"the backup does without")
	require.ErrorIs(t, s.ReplaceArtifacts(t.Context(), "b", files), full)
}

// TestArtifactsOfAnotherBackupAreLeftAlone has another backup of the name appear meanwhile.
func TestArtifactsOfAnotherBackupAreLeftAlone(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "")
	upload, err := s.BeginBackup(t.Context(), "b", t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.PutBackupMetadata(t.Context(), "b", []byte(`{"metadata":{"uid":"other"}}`)))
	files := map[string]io.ReadSeeker{"items.jsonl": strings.NewReader("i")}
	require.ErrorIs(t, upload.PutArtifacts(t.Context(), "u", files), store.ErrBackupExists)
	require.Equal(t, []string{"backups/b/velero-backup.json"}, objects.keys("bucket"))
	require.NoError(t, upload.PutArtifacts(t.Context(), "other", files),
		"an earlier attempt of the same backup has stored it")
	upload.Leave()
}

// refusing is an object store that does not take keys with a suffix.
type refusing struct {
	objectstore.Store
	suffix string
	err    error
}

func (r refusing) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	if strings.HasSuffix(key, r.suffix) {
		return r.err
	}
	return r.Store.PutObject(ctx, bucket, key, body)
}
