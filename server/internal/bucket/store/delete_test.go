package store_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// foreignLister lists keys and directories outside the requested prefix.
type foreignLister struct{ *memory }

func (foreignLister) ListObjects(context.Context, string, string) ([]string, error) {
	return []string{"backups/b1/velero-backup.json", "backups/other/velero-backup.json"}, nil
}

func (foreignLister) ListCommonPrefixes(context.Context, string, string, string) ([]string, error) {
	return []string{"backups/b1/", "restores/r1/"}, nil
}

// withBackup puts a whole backup b1 of uid u1, and another backup whose name starts like it.
func withBackup() *memory {
	objects := newMemory()
	for _, key := range backupKeys("") {
		objects.set(key, "x")
	}
	objects.set("backups/b1/velero-backup.json", `{"metadata":{"name":"b1","uid":"u1"}}`)
	objects.set("backups/b1/something-else", "x")
	objects.set("backups/b10/velero-backup.json", "x")
	return objects
}

func TestDeleteBackupRemovesMetadataFirst(t *testing.T) {
	t.Parallel()
	objects := withBackup()
	require.NoError(t, store.New(objects, "bucket", "").DeleteBackup(t.Context(), "b1"))
	require.Equal(t, "delete backups/b1/velero-backup.json", objects.calls[0])
	require.Len(t, objects.calls, len(backupKeys(""))+1)
	require.Equal(t, []string{"backups/b10/velero-backup.json"}, objects.keys("bucket"))
	require.NoError(t, store.New(objects, "bucket", "").DeleteBackup(t.Context(), "b1"), "again")
}

func TestInterruptedDeletionLeavesACompleteBackupOrNone(t *testing.T) {
	t.Parallel()
	for _, key := range append(backupKeys(""), "backups/b1/something-else") {
		objects := withBackup()
		objects.fault = func(call string) error {
			if call == "delete "+key {
				return errDown
			}
			return nil
		}
		s := store.New(objects, "bucket", "")
		require.ErrorIs(t, s.DeleteBackup(t.Context(), "b1"), errDown)
		exists, err := s.BackupExists(t.Context(), "b1")
		require.NoError(t, err)
		if exists {
			require.Len(t, objects.keys("bucket"), len(backupKeys(""))+2, "it is still whole")
		} else {
			require.Equal(t, []string{key, "backups/b10/velero-backup.json"}, objects.keys("bucket"))
		}
		objects.fault = nil
		require.NoError(t, s.DeleteBackup(t.Context(), "b1"))
		require.Equal(t, []string{"backups/b10/velero-backup.json"}, objects.keys("bucket"))
	}
}

func TestRemovePartial(t *testing.T) {
	t.Parallel()
	log := "backups/b1/b1-logs.gz"
	other := "backups/b10/velero-backup.json"
	t.Run("of this backup keeps the log", func(t *testing.T) {
		t.Parallel()
		objects := withBackup()
		require.NoError(t, store.New(objects, "bucket", "").RemovePartial(t.Context(), "b1", "u1"))
		require.Equal(t, []string{log, other}, objects.keys("bucket"))
		require.Equal(t, "delete backups/b1/velero-backup.json", objects.calls[0])
	})
	t.Run("of another backup touches nothing", func(t *testing.T) {
		t.Parallel()
		objects := withBackup()
		before := objects.keys("bucket")
		require.NoError(t, store.New(objects, "bucket", "").RemovePartial(t.Context(), "b1", "u2"))
		require.Equal(t, before, objects.keys("bucket"))
	})
	t.Run("of nobody removes what cannot be restored", func(t *testing.T) {
		t.Parallel()
		objects := newMemory()
		objects.set("backups/b1/b1.tar.gz", "x")
		objects.set(log, "x")
		objects.set(other, "x")
		require.NoError(t, store.New(objects, "bucket", "").RemovePartial(t.Context(), "b1", "u1"))
		require.Equal(t, []string{log, other}, objects.keys("bucket"))
	})
	t.Run("of a backup that cannot be read touches nothing", func(t *testing.T) {
		t.Parallel()
		objects := withBackup()
		objects.set("backups/b1/velero-backup.json", "{")
		before := objects.keys("bucket")
		err := store.New(objects, "bucket", "").RemovePartial(t.Context(), "b1", "u1")
		require.ErrorContains(t, err, "decode backups/b1/velero-backup.json")
		require.Equal(t, before, objects.keys("bucket"))
	})
	t.Run("without uid is refused", func(t *testing.T) {
		t.Parallel()
		objects := withBackup()
		require.ErrorContains(t, store.New(objects, "bucket", "").RemovePartial(t.Context(), "b1", ""),
			"want the metadata.uid")
		require.Empty(t, objects.calls)
	})
	t.Run("of nothing", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, store.New(newMemory(), "bucket", "").RemovePartial(t.Context(), "b1", "u1"))
	})
}
