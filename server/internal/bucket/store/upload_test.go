package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

var errDown = errors.New("object store is down")

// artifacts is a full set. All readers are fresh.
func artifacts() store.Artifacts {
	return store.Artifacts{
		Metadata:         []byte(`{"metadata":{"uid":"u1"}}`),
		Log:              strings.NewReader("log"),
		PodVolumeBackups: strings.NewReader("pvbs"),
		VolumeSnapshots:  strings.NewReader("snapshots"),
		ItemOperations:   strings.NewReader("operations"),
		ResourceList:     strings.NewReader("list"),
		Results:          strings.NewReader("results"),
		VolumeInfo:       strings.NewReader("volumes"),
	}
}

func backupKeys(prefix string) []string {
	return []string{ // in Velero's order
		prefix + "backups/b1/b1-logs.gz",
		prefix + "backups/b1/velero-backup.json",
		prefix + "backups/b1/b1.tar.gz",
		prefix + "backups/b1/b1-podvolumebackups.json.gz",
		prefix + "backups/b1/b1-volumesnapshots.json.gz",
		prefix + "backups/b1/b1-itemoperations.json.gz",
		prefix + "backups/b1/b1-resource-list.json.gz",
		prefix + "backups/b1/b1-results.gz",
		prefix + "backups/b1/b1-volumeinfo.json.gz",
	}
}

func begin(t *testing.T, objects *memory) *store.Upload {
	t.Helper()
	upload, err := store.New(objects, "bucket", "").BeginBackup(t.Context(), "b1", "")
	require.NoError(t, err)
	return upload
}

// archived is begin with an archive.
func archived(t *testing.T, objects *memory) *store.Upload {
	t.Helper()
	upload := begin(t, objects)
	_, err := io.WriteString(upload.Contents(), "archive")
	require.NoError(t, err)
	return upload
}

// failAt makes one call fail, each time.
func (m *memory) failAt(failing string) {
	m.fault = func(call string) error {
		if call == failing {
			return errDown
		}
		return nil
	}
}

// writeUntilFailure writes until the writer has learnt of a failure of the upload.
func writeUntilFailure(upload *store.Upload) (err error) {
	for err == nil {
		_, err = io.WriteString(upload.Contents(), "more")
	}
	return err
}

// requireOrder requires the keys of a backup in Velero's order. The order of those after the archive does not matter.
func requireOrder(t *testing.T, want, got []string) {
	t.Helper()
	require.Len(t, got, len(want))
	first := slices.IndexFunc(want, func(key string) bool { return strings.HasSuffix(key, ".tar.gz") }) + 1
	require.Equal(t, want[:first], got[:first])
	require.ElementsMatch(t, want[first:], got[first:])
}

func TestCommitStoresKeysInTheOrderOfVelero(t *testing.T) {
	t.Parallel()
	for prefix, root := range map[string]string{"": "", "p": "p/", "/p/q/": "p/q/"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			t.Parallel()
			objects := newMemory()
			upload, err := store.New(objects, "bucket", prefix).BeginBackup(t.Context(), "b1", "")
			require.NoError(t, err)
			_, err = io.WriteString(upload.Contents(), "archive")
			require.NoError(t, err)

			require.NoError(t, upload.Commit(t.Context(), artifacts()))

			requireOrder(t, backupKeys(root), objects.puts())
			require.Equal(t, "archive", objects.content(root+"backups/b1/b1.tar.gz"))
			require.Equal(t, "results", objects.content(root+"backups/b1/b1-results.gz"))
		})
	}
}

func TestCommitSkipsAbsentArtifacts(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	upload := archived(t, objects)

	require.NoError(t, upload.Commit(t.Context(), store.Artifacts{Metadata: []byte(`{}`)}))

	require.Equal(t, []string{"backups/b1/velero-backup.json", "backups/b1/b1.tar.gz"}, objects.puts())
}

func TestArchiveStaysInvisibleUntilCommit(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	upload := begin(t, objects)
	for range 100 {
		_, err := upload.Contents().Write(bytes.Repeat([]byte("x"), 1<<16))
		require.NoError(t, err)
	}
	require.Empty(t, objects.keys("bucket"))
	require.NoError(t, upload.Commit(t.Context(), artifacts()))
	require.Len(t, objects.content("backups/b1/b1.tar.gz"), 100<<16)
}

// After a failure at any call the bucket holds the whole backup, or nothing of it but the log.
func TestFailureAtAnyCallLeavesAllOrNothing(t *testing.T) {
	t.Parallel()
	var calls []string
	recorder := newMemory()
	recorder.fault = func(call string) error { calls = append(calls, call); return nil }
	upload := begin(t, recorder)
	_, err := io.WriteString(upload.Contents(), "archive")
	require.NoError(t, err)
	require.NoError(t, upload.Commit(t.Context(), artifacts()))
	require.Greater(t, len(calls), 15)

	for _, keepBroken := range []bool{false, true} {
		for _, failing := range slices.Compact(slices.Sorted(slices.Values(calls))) {
			t.Run(fmt.Sprintf("%s, keeps broken objects: %t", failing, keepBroken), func(t *testing.T) {
				t.Parallel()
				objects := newMemory()
				objects.keepBroken = keepBroken
				armed := true
				objects.fault = func(call string) error {
					if call == failing && armed {
						armed = false
						return errDown
					}
					return nil
				}
				upload, err := store.New(objects, "bucket", "").BeginBackup(t.Context(), "b1", "")
				if err == nil {
					_, err = io.WriteString(upload.Contents(), "archive")
					if commitErr := upload.Commit(t.Context(), artifacts()); err == nil {
						err = commitErr
					}
				}
				if strings.HasSuffix(failing, "-logs.gz") {
					require.NoError(t, err, "the log is best effort")
					return
				}
				require.ErrorIs(t, err, errDown)
				require.NotErrorIs(t, err, store.ErrNotCleaned)
				require.Subset(t, []string{"backups/b1/b1-logs.gz"}, objects.keys("bucket"))
			})
		}
	}
}

// TestCommitMeetsAnotherProcess lets another process write velero-backup.json at each moment of a commit.
func TestCommitMeetsAnotherProcess(t *testing.T) {
	t.Parallel()
	const metadata = "backups/b1/velero-backup.json"
	for moment, after := range map[string]string{
		"before the upload": "", "before the commit": "exists " +
			metadata, "before the write": "after put backups/b1/b1-logs.gz",
		"after the write": "after put " + metadata, "at the end": "after put backups/b1/b1-volumeinfo.json.gz",
	} {
		for who, other := range map[string]string{
			"an earlier attempt": `{"metadata":{"uid":"u1","annotations":{"cleat.dev/attempt":"1"}}}`,
			"another backup":     `{"metadata":{"uid":"u2"}}`,
		} {
			t.Run(who+" "+moment, func(t *testing.T) {
				t.Parallel()
				objects := newMemory()
				begun, written := false, false
				objects.fault = func(call string) error {
					if call == after && begun && !written {
						written = true
						objects.set(metadata, other)
					}
					return nil
				}
				upload := begin(t, objects)
				_, err := io.WriteString(upload.Contents(), "archive")
				require.NoError(t, err)
				objects.faults.Lock()
				begun = true
				objects.faults.Unlock()
				if after == "" {
					objects.set(metadata, other)
				}
				err = upload.Commit(t.Context(), artifacts())
				if who == "another backup" {
					require.ErrorIs(t, err, store.ErrBackupExists)
					require.Equal(t, other, objects.content(metadata), "it is kept")
					return
				}
				require.NoError(t, err)
				require.Equal(t, string(artifacts().Metadata), objects.content(metadata))
			})
		}
	}
}

func TestLeftUploadChangesNothing(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	upload := begin(t, objects)
	_, err := io.WriteString(upload.Contents(), "half of the arch")
	require.NoError(t, err)
	objects.set("backups/b1/b1.tar.gz", "of the next server")
	upload.Leave()
	require.Empty(t, objects.puts())
	require.Equal(t, "of the next server", objects.content("backups/b1/b1.tar.gz"))
	require.NoError(t, upload.Abort(t.Context(), strings.NewReader("log"), []byte("{}")), "it has ended")
	require.Empty(t, objects.puts())
}

func TestCommitWarnsAboutAFailedLog(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	objects.failAt("put backups/b1/b1-logs.gz")
	upload := archived(t, objects)
	var warned error
	files := artifacts()
	files.Warn = func(err error) { warned = err }

	require.NoError(t, upload.Commit(t.Context(), files))

	require.ErrorIs(t, warned, errDown)
	requireOrder(t, backupKeys("")[1:], objects.puts())
}

func TestCancelledCommitCleansUp(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	objects.fault = func(call string) error {
		if call == "put backups/b1/b1-results.gz" {
			cancel()
			return ctx.Err()
		}
		return nil
	}
	upload, err := store.New(objects, "bucket", "").BeginBackup(ctx, "b1", "")
	require.NoError(t, err)
	_, err = io.WriteString(upload.Contents(), "archive")
	require.NoError(t, err)

	require.ErrorIs(t, upload.Commit(ctx, artifacts()), context.Canceled)

	require.Equal(t, []string{"backups/b1/b1-logs.gz"}, objects.keys("bucket"))
}

func TestCancelledUploadFailsWriterAndCommit(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	ctx, cancel := context.WithCancel(t.Context())
	upload, err := store.New(objects, "bucket", "").BeginBackup(ctx, "b1", "")
	require.NoError(t, err)
	_, err = io.WriteString(upload.Contents(), "half of the arch")
	require.NoError(t, err)

	cancel()

	require.ErrorIs(t, writeUntilFailure(upload), context.Canceled)
	require.ErrorIs(t, upload.Commit(t.Context(), artifacts()), context.Canceled)
	require.Empty(t, objects.keys("bucket"))
}

func TestFailedCleanupIsReportedAndRepaired(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	down := false
	objects.fault = func(call string) error {
		if call == "put backups/b1/b1-results.gz" {
			down = true
		}
		if down {
			return errDown
		}
		return nil
	}
	upload := archived(t, objects)

	err := upload.Commit(t.Context(), artifacts())

	require.ErrorIs(t, err, errDown)
	require.ErrorIs(t, err, store.ErrNotCleaned)
	require.NotContains(t, err.Error(), "\n")

	down, objects.fault = false, nil
	require.NoError(t, store.New(objects, "bucket", "").RemovePartial(t.Context(), "b1", "u1"))
	require.Equal(t, []string{"backups/b1/b1-logs.gz"}, objects.keys("bucket"))
}

func TestFailureOfTheArchiveFailsItsWriter(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	objects.failAt("put backups/b1/b1.tar.gz")
	upload := begin(t, objects)

	err := writeUntilFailure(upload)

	require.ErrorIs(t, err, errDown)
	require.ErrorContains(t, err, `store backups/b1/b1.tar.gz in bucket "bucket"`)
	require.ErrorIs(t, upload.Commit(t.Context(), artifacts()), errDown)
	require.Empty(t, objects.keys("bucket"))
}

// lazy reports success without reading what it is given.
type lazy struct{ *memory }

func (lazy) PutObject(context.Context, string, string, io.Reader) error { return nil }

func TestObjectStoreMustReadTheWholeArchive(t *testing.T) {
	t.Parallel()
	upload, err := store.New(lazy{newMemory()}, "bucket", "").BeginBackup(t.Context(), "b1", "")
	require.NoError(t, err)
	require.ErrorContains(t, writeUntilFailure(upload), "before it had read the whole archive")
	require.Error(t, upload.Commit(t.Context(), artifacts()))
}

func TestExistingBackupIsNeverChanged(t *testing.T) {
	t.Parallel()
	other := func(objects *memory) {
		for _, key := range backupKeys("") {
			objects.set(key, "other")
		}
	}
	untouched := func(t *testing.T, objects *memory) {
		t.Helper()
		require.Len(t, objects.keys("bucket"), len(backupKeys("")))
		for _, key := range backupKeys("") {
			require.Equal(t, "other", objects.content(key), key)
		}
	}
	t.Run("at begin", func(t *testing.T) {
		t.Parallel()
		objects := newMemory()
		other(objects)
		_, err := store.New(objects, "bucket", "").BeginBackup(t.Context(), "b1", "")
		require.ErrorIs(t, err, store.ErrBackupExists)
		untouched(t, objects)
	})
	t.Run("at commit", func(t *testing.T) {
		t.Parallel()
		objects := newMemory()
		upload := begin(t, objects)
		other(objects)
		require.ErrorIs(t, upload.Commit(t.Context(), artifacts()), store.ErrBackupExists)
		untouched(t, objects)
	})
	t.Run("at abort", func(t *testing.T) {
		t.Parallel()
		objects := newMemory()
		upload := begin(t, objects)
		other(objects)
		err := upload.Abort(t.Context(), strings.NewReader("log"), []byte(`{}`))
		require.ErrorIs(t, err, store.ErrBackupExists)
		untouched(t, objects)
	})
	t.Run("when the upload failed before commit", func(t *testing.T) {
		t.Parallel()
		objects := newMemory()
		objects.failAt("put backups/b1/b1.tar.gz")
		upload := begin(t, objects)
		require.ErrorIs(t, writeUntilFailure(upload), errDown)
		other(objects)
		require.ErrorIs(t, upload.Commit(t.Context(), artifacts()), errDown)
		untouched(t, objects)
	})
}

func TestAbortStoresLogAndFailedBackupOnly(t *testing.T) {
	t.Parallel()
	for _, keepBroken := range []bool{false, true} {
		objects := newMemory()
		objects.keepBroken = keepBroken
		upload := begin(t, objects)
		_, err := io.WriteString(upload.Contents(), "half of the arch")
		require.NoError(t, err)

		require.NoError(t, upload.Abort(t.Context(), strings.NewReader("log"), []byte(`{"status":{"phase":"Failed"}}`)))

		require.Equal(t, []string{"backups/b1/b1-logs.gz", "backups/b1/velero-backup.json"}, objects.keys("bucket"))
		_, err = io.WriteString(upload.Contents(), "more")
		require.ErrorContains(t, err, "aborted")
		require.NoError(t, upload.Abort(t.Context(), nil, nil), "a second Abort does nothing")
		require.Error(t, upload.Commit(t.Context(), artifacts()))
	}
}

func TestAbortAfterCommitKeepsTheBackup(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	upload := archived(t, objects)
	require.NoError(t, upload.Commit(t.Context(), artifacts()))

	require.NoError(t, upload.Abort(t.Context(), strings.NewReader("other log"), nil))

	require.Equal(t, "log", objects.content("backups/b1/b1-logs.gz"))
	require.Equal(t, "archive", objects.content("backups/b1/b1.tar.gz"))
}

func TestCommitWithoutMetadataFails(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	upload := begin(t, objects)
	require.ErrorContains(t, upload.Commit(t.Context(), store.Artifacts{}), "want the JSON of a Backup")
	require.Empty(t, objects.keys("bucket"))
}
