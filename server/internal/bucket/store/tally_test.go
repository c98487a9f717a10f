package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

func sumOf(content string) store.Sum {
	sum := sha256.Sum256([]byte(content))
	return store.Sum{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))}
}

func TestTallyIsThatOfStoredFiles(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "")
	upload, err := s.BeginBackup(t.Context(), "b1", t.TempDir())
	require.NoError(t, err)
	_, err = upload.Contents().Write([]byte("archive"))
	require.NoError(t, err)
	list, err := store.EncodeJSON([]string{"one"})
	require.NoError(t, err)
	require.NoError(t, upload.Commit(t.Context(), store.Artifacts{
		Metadata: []byte(`{"metadata":{"uid":"u"}}`), VolumeSnapshots: list, Results: bytes.NewReader(nil),
	}))
	files := upload.Tally()
	require.Equal(t, []string{"b1-results.gz", "b1-volumesnapshots.json.gz", "b1.tar.gz"},
		slices.Sorted(maps.Keys(files)))
	require.False(t, files.IsFinal())
	require.Equal(t, files, store.ParseTally(files.String()))
	for name, sum := range files {
		require.Equal(t, sumOf(objects.content("backups/b1/"+name)), sum)
		found, err := s.SumOf(t.Context(), "b1", name)
		require.NoError(t, err)
		require.Equal(t, sum, found)
	}
	found, digest, err := store.DecodeHashedList[[]string](t.Context(), s,
		velerov1.DownloadTargetKindBackupVolumeSnapshots, "b1")
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, found)
	require.Equal(t, files.Digest(velerov1.DownloadTargetKindBackupVolumeSnapshots, "b1"), digest)
	contents, err := s.Hashed(t.Context(), velerov1.DownloadTargetKindBackupContents, "b1")
	require.NoError(t, err)
	digest, err = contents.Digest()
	require.NoError(t, err)
	require.Equal(t, files.Digest(velerov1.DownloadTargetKindBackupContents, "b1"), digest)

	recording, record := s.Recording("b1")
	require.NoError(t, recording.ReplaceBackupContents(t.Context(), "b1", upper))
	require.NoError(t, recording.PutRestoreLog(t.Context(), "b1", strings.NewReader("of a restore")))
	require.Equal(t, store.Tally{"b1.tar.gz": sumOf("ARCHIVE")}, record.Tally())
	require.NoError(t, recording.DeleteBackup(t.Context(), "b1"))
	require.Empty(t, record.Tally())
	_, err = s.SumOf(t.Context(), "b1", "b1.tar.gz")
	require.ErrorIs(t, err, store.ErrNotFound)
	none, digest, err := store.DecodeHashedList[[]string](t.Context(), s, velerov1.DownloadTargetKindBackupItemOperations,
		"b1")
	require.NoError(t, err)
	require.Empty(t, none)
	require.Empty(t, digest)
}

func TestUploadThatIsReadAgainHasOneSum(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	recording, record := store.New(interrupted{objects, 3}, "bucket", "").Recording("b1")
	require.NoError(t, recording.PutBackupLog(t.Context(), "b1", strings.NewReader("a log")))
	require.Equal(t, store.Tally{"b1-logs.gz": sumOf("a log")}, record.Tally())
}

func TestParsedTallies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]store.Tally{
		"":                            {},
		strings.Repeat("x=,", 3):      {},
		"BackupContents=a,x":          {"BackupContents": {SHA256: "a", Size: -1}},
		"b.tar.gz=a:7,b-logs.gz=b:0":  {"b.tar.gz": {SHA256: "a", Size: 7}, "b-logs.gz": {SHA256: "b"}},
		"b.tar.gz=a:-7,c=a:b,d=:4,=a": {"": {SHA256: "a", Size: -1}},
	} {
		require.Equal(t, want, store.ParseTally(text), text)
	}
	former := store.ParseTally("BackupContents=a")
	require.Equal(t, "a", former.Digest(velerov1.DownloadTargetKindBackupContents, "b"))
	require.Equal(t, former, store.ParseTally(former.String()))
	require.Empty(t, former.Digest(velerov1.DownloadTargetKindBackupVolumeSnapshots, "b"))
}

func TestTallyIsNotedOnlyWhereThereIsOne(t *testing.T) {
	t.Parallel()
	var b velerov1.Backup
	files := store.Tally{"b.tar.gz": {SHA256: "a", Size: 1}}
	files.Note(&b)
	require.Empty(t, b.Annotations)
	b.Annotations = map[string]string{velerov1.FilesAnnotation: "b.tar.gz=0:1,b-logs.gz=c:2"}
	files.Note(&b)
	require.Equal(t, "b-logs.gz=c:2,b.tar.gz=a:1", b.Annotations[velerov1.FilesAnnotation])
}
