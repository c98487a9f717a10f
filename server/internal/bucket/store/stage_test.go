package store_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// stagedBackup is a Backup whose files are staged.
func stagedBackup(attempt string) *velerov1.Backup {
	b := &velerov1.Backup{}
	b.Name, b.UID = "b1", "u"
	b.Annotations = map[string]string{velerov1.StagedAnnotation: attempt, velerov1.FilesAnnotation: ""}
	return b
}

const stagedMetadata = `{"metadata":{"name":"b1","uid":"u"}}`

// stageWhole stores a backup with all its changes, and returns the sums of its files.
func stageWhole(t *testing.T, s *store.Store) store.Tally {
	t.Helper()
	upload, err := s.BeginBackup(t.Context(), "b1", t.TempDir())
	require.NoError(t, err)
	_, err = io.WriteString(upload.Contents(), "archive\n")
	require.NoError(t, err)
	require.NoError(t, upload.Commit(t.Context(), store.Artifacts{
		Metadata: []byte(stagedMetadata), Results: strings.NewReader("results"), Log: strings.NewReader("log"),
	}))
	again, record := s.Recording("b1")
	require.NoError(t, again.ReplaceBackupContents(t.Context(), "b1", upper))
	require.NoError(t, again.AppendBackupLog(t.Context(), "b1", t.TempDir(), strings.NewReader("late")))
	require.NoError(t, again.PutBackupMetadata(t.Context(), "b1", []byte(stagedMetadata+"\n")))
	return upload.Tally().With(record.Tally())
}

func TestNoReaderTakesStagedFilesForABackup(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	s := store.New(objects, "bucket", "")
	staged := s.Of(stagedBackup("1"))
	files := stageWhole(t, staged)
	exists, err := s.BackupExists(t.Context(), "b1")
	require.NoError(t, err)
	require.False(t, exists)
	exists, err = staged.BackupExists(t.Context(), "b1")
	require.NoError(t, err)
	require.True(t, exists)
	require.NoError(t, s.Validate(t.Context()))
	uid, err := staged.BackupUID(t.Context(), "b1")
	require.NoError(t, err)
	require.EqualValues(t, "u", uid)
	url, err := staged.SignedURL(t.Context(), store.File{DownloadTarget: velerov1.DownloadTarget{
		Kind: velerov1.DownloadTargetKindBackupLog, Name: "b1"}}, time.Minute)
	require.NoError(t, err)
	require.Contains(t, url, "backups/b1/staged/u/1/b1-logs.gz/000002")
	none := s.Of(stagedBackup("2"))
	exists, err = none.BackupExists(t.Context(), "b1")
	require.NoError(t, err)
	require.False(t, exists)

	require.NoError(t, staged.Publish(t.Context(), "b1", files))
	require.NoError(t, staged.Unstage(t.Context(), stagedBackup("1")))
	require.Equal(t, []string{"backups/b1/b1-logs.gz", "backups/b1/b1-results.gz", "backups/b1/b1.tar.gz",
		"backups/b1/velero-backup.json"}, objects.keys("bucket"))
	require.Equal(t, "loglate", objects.content("backups/b1/b1-logs.gz"))
	require.Equal(t, "ARCHIVE\n", objects.content("backups/b1/b1.tar.gz"))
	mustWriteOnce(t, objects)
}

func mustWriteOnce(t *testing.T, objects *memory) {
	t.Helper()
	seen := map[string]bool{}
	for _, key := range objects.puts() {
		require.False(t, seen[key], "%s was written twice", key)
		seen[key] = true
	}
}

func TestAnnotationsThatStageNothing(t *testing.T) {
	t.Parallel()
	s := store.New(newMemory(), "bucket", "")
	for _, attempt := range []string{"", "0", "-1", "../..", "1/2"} {
		require.False(t, s.Of(stagedBackup(attempt)).IsStaged(), attempt)
	}
	b := stagedBackup("1")
	b.UID = ""
	require.False(t, s.Of(b).IsStaged())
}

// TestKilledAtEachCallOfPublish stops a server at each call of the object store, before and after its effect.
func TestKilledAtEachCallOfPublish(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	for at, ended := 0, false; !ended; at++ {
		objects := newMemory()
		b := stagedBackup("1")
		s := store.New(objects, "bucket", "")
		files := stageWhole(t, s.Of(b))
		calls := 0
		objects.fault = func(string) error {
			whole := []string{"b1.tar.gz", "b1-logs.gz", "b1-results.gz"}
			if objects.content("backups/b1/velero-backup.json") != "" {
				for _, name := range whole {
					require.NotEmpty(t, objects.content("backups/b1/"+name))
				}
			}
			if calls++; calls > at {
				return killed
			}
			return nil
		}
		err := s.Of(b).Publish(t.Context(), "b1", files)
		if err == nil {
			err = s.Of(b).Unstage(t.Context(), b)
		}
		if ended = err == nil; !ended {
			require.ErrorIs(t, err, killed)
		}
		objects.fault = nil
		require.NoError(t, s.Of(b).Publish(t.Context(), "b1", files))
		require.NoError(t, s.Of(b).Unstage(t.Context(), b))
		require.NoError(t, s.Of(b).Publish(t.Context(), "b1", files), "after the stage is gone")
		require.Len(t, objects.keys("bucket"), len(files))
		for name, sum := range files {
			require.Equal(t, sum, sumOf(objects.content("backups/b1/"+name)))
		}
		mustWriteOnce(t, objects)
	}
}

func TestOnlyWhatTheServerHasStoredIsPublished(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*memory, store.Tally)
		want   string
	}{
		"a staged file was changed": {func(m *memory, _ store.Tally) {
			m.set("backups/b1/staged/u/1/b1.tar.gz/000002", "ARCHIVE?")
		}, "the staged backups/b1/b1.tar.gz has 8 bytes and the sum"},
		"a newer one was added": {func(m *memory, _ store.Tally) {
			m.set("backups/b1/staged/u/1/b1.tar.gz/000003", "other")
		}, "the staged backups/b1/b1.tar.gz has 5 bytes"},
		"a file has the key": {func(m *memory, _ store.Tally) {
			m.set("backups/b1/b1.tar.gz", "of another")
		}, "is not the file of backup b1"},
		"a backup has the name": {func(m *memory, _ store.Tally) {
			m.set("backups/b1/velero-backup.json", `{"metadata":{"uid":"other"}}`)
		}, "is not the file of backup b1"},
		"a staged file is gone": {func(m *memory, _ store.Tally) {
			delete(m.objects, "bucket/backups/b1/staged/u/1/b1-results.gz/000001")
		}, "backups/b1/b1-results.gz"},
		"it is not whole": {func(_ *memory, files store.Tally) { delete(files, "velero-backup.json") },
			"the sum of its velero-backup.json is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := newMemory()
			staged := store.New(objects, "bucket", "").Of(stagedBackup("1"))
			files := stageWhole(t, staged)
			test.change(objects, files)
			require.ErrorContains(t, staged.Publish(t.Context(), "b1", files), test.want)
		})
	}
}

func TestStagedAttemptsAreRemoved(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	objects.set("backups/b1/staged/another/1/b1.tar.gz/000001", "of another backup of that name")
	s := store.New(objects, "bucket", "")
	stageWhole(t, s.Of(stagedBackup("1")))
	require.NoError(t, s.Of(stagedBackup("2")).RemovePartial(t.Context(), "b1", "u"))
	require.Empty(t, objects.keys("bucket"), "nobody can restore from what is below the name")

	stageWhole(t, s.Of(stagedBackup("1")))
	objects.set("backups/b1/velero-backup.json", `{"metadata":{"uid":"other"}}`)
	require.NoError(t, s.Of(stagedBackup("2")).RemoveTraces(t.Context(), "b1", "u"))
	require.Equal(t, []string{"backups/b1/velero-backup.json"}, objects.keys("bucket"))
	_, err := s.Of(stagedBackup("3")).BeginBackup(t.Context(), "b1", t.TempDir())
	require.ErrorIs(t, err, store.ErrBackupExists)
}

func TestFailedBackupIsNotStaged(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	upload, err := store.New(objects, "bucket", "").Of(stagedBackup("1")).BeginBackup(t.Context(), "b1", t.TempDir())
	require.NoError(t, err)
	_, err = io.WriteString(upload.Contents(), "half")
	require.NoError(t, err)
	require.NoError(t, upload.Abort(t.Context(), strings.NewReader("log"), []byte(stagedMetadata)))
	require.Equal(t, []string{"backups/b1/b1-logs.gz", "backups/b1/velero-backup.json"}, objects.keys("bucket"))
}

func TestLostAnswerLeavesNoStagedFileBehind(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	staged := store.New(objects, "bucket", "").Of(stagedBackup("1"))
	lost := errors.New("the connection broke")
	objects.fault = func(call string) error {
		if call == "after put backups/b1/staged/u/1/b1-results.gz/000001" {
			return lost
		}
		return nil
	}
	require.ErrorIs(t, staged.PutBackupResults(t.Context(), "b1", bytes.NewReader([]byte("one"))), lost)
	require.NoError(t, staged.PutBackupResults(t.Context(), "b1", bytes.NewReader([]byte("two"))))
	sum, err := staged.SumOf(t.Context(), "b1", "b1-results.gz")
	require.NoError(t, err)
	require.Equal(t, sumOf("two"), sum)
	mustWriteOnce(t, objects)
}
