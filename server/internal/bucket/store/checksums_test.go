package store_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// TestGuardedStoreReadsOnlyWhatIsSigned changes, adds and removes files after their sums were taken.
func TestGuardedStoreReadsOnlyWhatIsSigned(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "")
	require.NoError(t, s.PutBackupResults(t.Context(), "b", zipped(t, `{"a":1}`)))
	require.NoError(t, s.PutBackupVolumeInfo(t.Context(), "b", zipped(t, `[]`)))
	sums := store.Tally{}
	for _, name := range []string{"b-results.gz", "b-volumeinfo.json.gz"} {
		sum, err := s.SumOf(t.Context(), "b", name)
		require.NoError(t, err)
		sums[name] = sum
	}
	guarded := s.Guarded("b", sums, t.TempDir())
	read := func(kind velerov1.DownloadTargetKind) error {
		body, err := guarded.Get(t.Context(), kind, "b")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, body)
		require.NoError(t, body.Close())
		return err
	}
	const results, infos, log = velerov1.DownloadTargetKindBackupResults, velerov1.DownloadTargetKindBackupVolumeInfos,
		velerov1.DownloadTargetKindBackupLog
	require.NoError(t, read(results))
	require.ErrorIs(t, read(log), store.ErrNotFound, "a file that neither the sums nor the bucket has")
	require.NoError(t, guarded.PutRestoreLog(t.Context(), "r", strings.NewReader("log")), "others can be written")

	require.NoError(t, s.PutBackupResults(t.Context(), "b", zipped(t, `{"a":2}`)))
	require.ErrorIs(t, read(results), store.ErrChanged)
	require.NoError(t, s.PutBackupLog(t.Context(), "b", zipped(t, "added")))
	require.ErrorIs(t, read(log), store.ErrChanged)
	require.NoError(t, objects.DeleteObject(t.Context(), "bucket", "backups/b/b-volumeinfo.json.gz"))
	require.ErrorIs(t, read(infos), store.ErrChanged)

	require.NoError(t, s.PutChecksums(t.Context(), "b", []byte("sums"), []byte("signature")))
	require.NoError(t, s.PutChecksums(t.Context(), "b", []byte("sums"), nil))
	_, signature, err := s.Checksums(t.Context(), "b")
	require.NoError(t, err)
	require.Nil(t, signature, "that of an earlier attempt is gone")
	for _, name := range []string{store.ChecksumsFile, store.SignatureFile} {
		require.Error(t, store.CheckArtifact(name), "no manifest writer can write it")
	}
}

func zipped(t *testing.T, text string) io.ReadSeeker {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return bytes.NewReader(out.Bytes())
}
