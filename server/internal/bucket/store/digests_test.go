package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

func TestDigestsAreThoseOfStoredFiles(t *testing.T) {
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
	digests := upload.Digests()
	require.Len(t, digests, 2)
	require.Equal(t, digests, store.ParseDigests(digests.String()))
	sum := sha256.Sum256([]byte("archive"))
	require.Equal(t, hex.EncodeToString(sum[:]), digests[velerov1.DownloadTargetKindBackupContents])
	found, digest, err := store.DecodeHashedList[[]string](t.Context(), s,
		velerov1.DownloadTargetKindBackupVolumeSnapshots, "b1")
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, found)
	require.Equal(t, digests[velerov1.DownloadTargetKindBackupVolumeSnapshots], digest)
	contents, err := s.Hashed(t.Context(), velerov1.DownloadTargetKindBackupContents, "b1")
	require.NoError(t, err)
	digest, err = contents.Digest()
	require.NoError(t, err)
	require.Equal(t, digests[velerov1.DownloadTargetKindBackupContents], digest)

	replaced, err := s.ReplaceBackupContents(t.Context(), "b1", upper)
	require.NoError(t, err)
	require.NotEqual(t, digest, replaced)
	contents, err = s.Hashed(t.Context(), velerov1.DownloadTargetKindBackupContents, "b1")
	require.NoError(t, err)
	digest, err = contents.Digest()
	require.NoError(t, err)
	require.Equal(t, digest, replaced)
	none, digest, err := store.DecodeHashedList[[]string](t.Context(), s, velerov1.DownloadTargetKindBackupItemOperations,
		"b1")
	require.NoError(t, err)
	require.Empty(t, none)
	require.Empty(t, digest)
	require.Empty(t, store.ParseDigests(strings.Repeat("x=,", 3)))
}
