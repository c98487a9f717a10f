package store_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// A bucket that does not find what was just stored is not believed for a while.
func TestWhatWasStoredIsMissingLaterOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects, written := newMemory(), &store.Written{}
		s := store.New(objects, "bucket", "").Remembering(written)
		other := store.New(objects, "bucket", "").Remembering(written) // as the next controller opens it
		exists := func() (bool, error) { return other.BackupExists(t.Context(), "b1") }

		found, err := exists()
		require.NoError(t, err)
		require.False(t, found)
		require.NoError(t, s.PutBackupMetadata(t.Context(), "b1", []byte("{}")))
		delete(objects.objects, "bucket/backups/b1/velero-backup.json")
		_, err = exists()
		require.ErrorIs(t, err, framework.ErrUnavailable)
		require.ErrorContains(t, err, "does not find backups/b1/velero-backup.json")
		_, err = other.MetadataOfListed(t.Context(), "b1")
		require.ErrorIs(t, err, framework.ErrUnavailable)
		time.Sleep(time.Minute)
		found, err = exists()
		require.NoError(t, err)
		require.False(t, found)

		require.NoError(t, s.PutBackupMetadata(t.Context(), "b1", []byte("{}")))
		require.NoError(t, other.DeleteBackup(t.Context(), "b1"))
		found, err = exists()
		require.NoError(t, err, "it was deleted")
		require.False(t, found)
	})
}

// sized is a store in memory that sends ranges.
type sized struct{ *memory }

func (s sized) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	body, err := s.memory.GetObject(ctx, bucket, key)
	asked := hostapi.RangeOf(ctx)
	if err != nil || asked == nil {
		return body, err
	}
	size := int64(len(s.content(key)))
	offset, length := asked.In(size)
	return part{io.NewSectionReader(strings.NewReader(s.content(key)), offset, length), offset, size}, nil
}

type part struct {
	io.Reader
	offset, size int64
}

func (part) Close() error          { return nil }
func (p part) Part() *hostapi.Part { return &hostapi.Part{Offset: p.offset, Size: p.size} }

// TestArchiveThatIsLostIsStoredAgain has an object store that acknowledges the archive and loses it, or a part of it.
func TestArchiveThatIsLostIsStoredAgain(t *testing.T) {
	t.Parallel()
	const key = "backups/b1/b1.tar.gz"
	lose := func(m *memory) { m.mu.Lock(); delete(m.objects, "bucket/"+key); m.mu.Unlock() }
	cut := func(m *memory) { m.set(key, "arch") }
	for name, test := range map[string]struct {
		harm  func(*memory)
		sizes bool
		times int
		want  string
	}{
		"once":           {lose, false, 1, ""},
		"cut once":       {cut, true, 1, ""},
		"always":         {lose, true, 100, "has acknowledged the file and lost it: it does not exist, want 7 bytes"},
		"always cut":     {cut, true, 100, "has acknowledged the file and lost it: it has 4 bytes, want 7"},
		"cut, no ranges": {cut, false, 100, ""}, // which nobody can see without reading it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := newMemory()
			s := store.New(objects, "bucket", "")
			if test.sizes {
				s = store.New(sized{objects}, "bucket", "")
			}
			left := test.times
			objects.fault = func(call string) error {
				if call == "after put "+key && left > 0 {
					left--
					test.harm(objects)
				}
				return nil
			}
			upload, err := s.BeginBackup(t.Context(), "b1", "")
			require.NoError(t, err)
			_, err = io.WriteString(upload.Contents(), "archive")
			require.NoError(t, err)
			err = upload.Commit(t.Context(), artifacts())
			if test.want == "" {
				require.NoError(t, err)
				if test.times == 1 {
					require.Equal(t, "archive", objects.content(key))
				}
				return
			}
			require.ErrorContains(t, err, test.want)
			require.True(t, errors.Is(err, store.ErrLost))
			require.NotContains(t, objects.keys("bucket"), "backups/b1/velero-backup.json", "nobody takes it for a backup")
		})
	}
}
