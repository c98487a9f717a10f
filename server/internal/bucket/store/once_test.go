package store_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

func TestEachKeyIsWrittenOnce(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "p").Once()
	logOf := func() string {
		body, err := s.Download(t.Context(), store.File{DownloadTarget: velerov1.DownloadTarget{
			Kind: velerov1.DownloadTargetKindRestoreLog, Name: "r"}})
		require.NoError(t, err)
		content, err := io.ReadAll(body)
		require.NoError(t, errors.Join(err, body.Close()))
		return string(content)
	}
	for _, content := range []string{"one", "two", "three"} {
		require.NoError(t, s.PutRestoreLog(t.Context(), "r", strings.NewReader(content)))
		require.Equal(t, content, logOf())
	}
	require.NoError(t, s.AppendRestoreLog(t.Context(), "r", t.TempDir(), strings.NewReader(" and more")))
	require.Equal(t, "three and more", logOf())
	require.Equal(t, []string{"p/restores/r/restore-r-logs.gz", "p/restores/r/rewritten/restore-r-logs.gz/000001",
		"p/restores/r/rewritten/restore-r-logs.gz/000002", "p/restores/r/rewritten/restore-r-logs.gz/000003",
	}, objects.keys("bucket"))
	require.Equal(t, "one", objects.content("p/restores/r/restore-r-logs.gz"))
	mustWriteOnce(t, objects)
	url, err := s.SignedURL(t.Context(), store.File{DownloadTarget: velerov1.DownloadTarget{
		Kind: velerov1.DownloadTargetKindRestoreLog, Name: "r"}}, 1)
	require.NoError(t, err)
	require.Contains(t, url, "000003")
	require.NoError(t, s.DeleteRestore(t.Context(), "r"))
	require.Empty(t, objects.keys("bucket"))
}

func TestStagedBackupInLocationThatWritesOnce(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	staged := store.New(objects, "bucket", "").Once().Of(stagedBackup("1"))
	files := stageWhole(t, staged)
	require.NoError(t, staged.Publish(t.Context(), "b1", files))
	require.NoError(t, staged.Publish(t.Context(), "b1", files))
	require.NoError(t, staged.Unstage(t.Context(), stagedBackup("1")))
	require.Len(t, objects.keys("bucket"), len(files))
	mustWriteOnce(t, objects)
}

func TestLostAnswersInLocationThatWritesOnce(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "").Once()
	lost := errors.New("the connection broke")
	for n := range 3 {
		objects.fault = func(call string) error {
			if strings.HasPrefix(call, "after put") {
				return lost
			}
			return nil
		}
		require.ErrorIs(t, s.PutRestoreResults(t.Context(), "r", strings.NewReader("lost")), lost, n)
		objects.fault = nil
	}
	require.NoError(t, s.PutRestoreResults(t.Context(), "r", strings.NewReader("kept")))
	require.Equal(t, "kept", objects.content("restores/r/rewritten/restore-r-results.gz/000003"))
	mustWriteOnce(t, objects)
	objects.set("restores/r/rewritten/restore-r-results.gz/x", "of somebody")
	require.ErrorContains(t, s.PutRestoreResults(t.Context(), "r", strings.NewReader("")),
		"is not a version of a file")
}
