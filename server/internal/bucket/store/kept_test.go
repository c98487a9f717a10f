package store_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// keeper is a store in memory that keeps objects.
type keeper struct {
	*memory
	kept map[string]objectstore.Retention
	err  error // of all calls

	mu    sync.Mutex
	asked map[string]string // the time for which an object was to be kept
	held  map[string]bool
}

func (k *keeper) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	sent, _ := metadata.FromOutgoingContext(ctx)
	k.mu.Lock()
	k.asked[key] = strings.Join(sent.Get("cleat-retain-until"), "")
	k.mu.Unlock()
	return k.memory.PutObject(ctx, bucket, key, body)
}

func (k *keeper) Retention(_ context.Context, _, key string) (*objectstore.Retention, error) {
	kept, ok := k.kept[key]
	if !ok && k.err == nil {
		return nil, versioning.ErrNotFound
	}
	return &kept, k.err
}

func (k *keeper) SetHold(_ context.Context, _, key string, on bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[key] = on
	return k.err
}

func newKeeper() *keeper {
	return &keeper{memory: newMemory(), asked: map[string]string{}, held: map[string]bool{}}
}

func TestWhatKeepsABackup(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC)
	until := func(d time.Duration) objectstore.Retention {
		return objectstore.Retention{Mode: osv1.ModeGovernance, Until: now.Add(d)}
	}
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		kept  map[string]objectstore.Retention
		err   error
		until time.Time
		held  bool
	}{
		"nothing": {kept: map[string]objectstore.Retention{"backups/b1/velero-backup.json": {}}},
		"no file": {},
		"the latest": {kept: map[string]objectstore.Retention{"backups/b1/a": until(time.Hour),
			"backups/b1/b": until(2 * time.Hour), "backups/b1/c": {}}, until: now.Add(2 * time.Hour)},
		"a time that has passed": {kept: map[string]objectstore.Retention{"backups/b1/a": until(-time.Hour),
			"backups/b1/b": until(0)}},
		"a hold": {kept: map[string]objectstore.Retention{"backups/b1/a": {Held: true}, "backups/b1/b": until(time.Hour)},
			until: now.Add(time.Hour), held: true},
		"another backup": {kept: map[string]objectstore.Retention{"backups/b10/a": until(time.Hour)}},
		"a store that does not tell": {kept: map[string]objectstore.Retention{"backups/b1/a": until(time.Hour)},
			err: errors.ErrUnsupported},
		"a broken store": {kept: map[string]objectstore.Retention{"backups/b1/a": {}}, err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := newKeeper()
			objects.kept, objects.err = test.kept, test.err
			for key := range test.kept {
				objects.set(key, "x")
			}
			objects.set("backups/b1/lost", "x") // of which the store says that it does not exist
			kept, err := store.New(objects, "bucket", "").Kept(t.Context(), "b1", now)
			if errors.Is(test.err, broken) {
				require.ErrorIs(t, err, broken)
				require.ErrorContains(t, err, "look for the lock of backups/b1/")
				return
			}
			require.NoError(t, err)
			require.Equal(t, store.Kept{Until: test.until, Held: test.held}, kept)
		})
	}
}

func TestHoldIsOnAllFiles(t *testing.T) {
	t.Parallel()
	objects := newKeeper()
	s := store.New(objects, "bucket", "p")
	require.ErrorIs(t, s.Hold(t.Context(), "b1", true), store.ErrNotFound)
	for _, key := range []string{"p/backups/b1/velero-backup.json", "p/backups/b1/b1.tar.gz", "p/backups/b2/b2.tar.gz"} {
		objects.set(key, "x")
	}
	for _, on := range []bool{true, false} {
		require.NoError(t, s.Hold(t.Context(), "b1", on))
		require.Equal(t, map[string]bool{"p/backups/b1/velero-backup.json": on, "p/backups/b1/b1.tar.gz": on}, objects.held)
	}
	objects.err = errors.ErrUnsupported
	require.ErrorIs(t, s.Hold(t.Context(), "b1", true), errors.ErrUnsupported)
}

// Only the files that a backup is published with are kept: neither those that are staged, nor those of restores.
func TestPublishedFilesAreKept(t *testing.T) {
	t.Parallel()
	objects := newKeeper()
	until := time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC)
	plain := store.New(objects, "bucket", "")
	b := &velerov1.Backup{}
	b.Name, b.UID = "b1", types.UID("u1")
	b.Annotations = map[string]string{velerov1.StagedAnnotation: "1"}
	staged := plain.Of(b)
	recording, record := staged.Recording("b1")
	require.NoError(t, recording.PutBackupMetadata(t.Context(), "b1", []byte(`{"metadata":{"uid":"u1"}}`)))
	require.NoError(t, staged.Retain(until).Publish(t.Context(), "b1", record.Tally()))
	require.NoError(t, plain.Retain(until).PutRestoreLog(t.Context(), "r1", strings.NewReader("x")))
	require.NoError(t, plain.PutBackupLog(t.Context(), "b2", strings.NewReader("x")))
	kept := map[string]string{}
	maps.Copy(kept, objects.asked)
	maps.DeleteFunc(kept, func(_, asked string) bool { return asked == "" })
	require.Equal(t, map[string]string{"backups/b1/velero-backup.json": "2026-11-27T18:00:00Z"}, kept)
	require.Len(t, slices.Collect(maps.Keys(objects.asked)), 4)
}
