package kopia

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/snapshot"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
)

// client is a mover as the process of one client has it.
type client struct {
	*mover
	t *testing.T
}

func newClient(t *testing.T) *client {
	t.Helper()
	return &client{&mover{config: Defaults(), cache: t.TempDir(), alone: map[string]*sync.Mutex{}}, t}
}

// only returns the open repository that no call uses, of which there is one.
func (c *client) only() *opened {
	c.t.Helper()
	require.Len(c.t, c.kept.free, 1)
	return c.kept.free[0]
}

func (c *client) backup(of dmv1.Repository, key, volume string) string {
	c.t.Helper()
	output, err := c.Backup(c.t.Context(), &dmv1.BackupInput{Repository: of, Key: key,
		Volume: dmv1.Volume{Path: volume}, Report: func(dmv1.Progress) {}})
	require.NoError(c.t, err)
	return output.SnapshotID
}

func (c *client) restore(of dmv1.Repository, id, volume string) error {
	_, err := c.Restore(c.t.Context(), &dmv1.RestoreInput{Repository: of, SnapshotID: id,
		Volume: dmv1.Volume{Path: volume}, Report: func(dmv1.Progress) {}})
	return err
}

func (c *client) create(of dmv1.Repository) {
	c.t.Helper()
	_, err := c.Check(c.t.Context(), &dmv1.CheckInput{Repository: of, Create: true, Report: func(dmv1.Progress) {}})
	require.NoError(c.t, err)
}

// TestRepositoryStaysOpen has two clients whose repository stays open. Each sees what the other one has written,
// removed and maintained. Another password, another repository at the same place, or none, are not confused with it.
func TestRepositoryStaysOpen(t *testing.T) {
	t.Parallel()
	root, volume := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "bucket"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(volume, "file"), []byte("first"), 0o600))
	of := dmv1.Repository{Provider: "cleat.dev/file", Config: map[string]string{"path": root, "bucket": "bucket"},
		Path: "kopia/shop", Password: []byte("secret")}
	a, b := newClient(t), newClient(t)
	a.create(of)
	open := a.only()
	first := a.backup(of, "1", volume)
	require.NoError(t, a.restore(of, first, t.TempDir()))
	require.Same(t, open, a.only(), "it was opened once")

	require.NoError(t, b.restore(of, first, t.TempDir()))
	require.NoError(t, os.WriteFile(filepath.Join(volume, "file"), []byte("second"), 0o600))
	second := b.backup(of, "2", volume)
	ofB := b.only()
	_, err := b.Forget(t.Context(), &dmv1.ForgetInput{Repository: of, SnapshotIDs: []string{first},
		Report: func(dmv1.Progress) {}})
	require.NoError(t, err)
	maintained, err := b.Maintain(t.Context(), &dmv1.MaintainInput{Repository: of, Report: func(dmv1.Progress) {}})
	require.NoError(t, err)
	require.GreaterOrEqual(t, maintained.FreedBytes, int64(0))
	require.Same(t, ofB, b.only())
	target := t.TempDir()
	require.NoError(t, a.restore(of, second, target))
	text, err := os.ReadFile(filepath.Join(target, "file"))
	require.NoError(t, err)
	require.Equal(t, "second", string(text))
	require.ErrorIs(t, a.restore(of, first, t.TempDir()), framework.ErrNotFound)
	require.Empty(t, a.kept.free, "the repository of a call that fails is closed")

	require.NoError(t, a.restore(of, second, t.TempDir()))
	open = a.only()
	other := of
	other.Password = []byte("another")
	require.ErrorIs(t, a.restore(other, second, t.TempDir()), framework.ErrInvalid)
	require.Same(t, open, a.only())
	folder := filepath.Join(root, "bucket", "kopia")
	require.NoError(t, os.Rename(folder, folder+"-away"))
	require.ErrorIs(t, a.restore(of, second, t.TempDir()), framework.ErrNotFound)
	b.create(of)
	require.ErrorIs(t, a.restore(of, second, t.TempDir()), framework.ErrNotFound)
	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.Rename(folder+"-away", folder))
	require.NoError(t, a.restore(of, second, t.TempDir()))
	require.Same(t, open, a.only())

	a.kept.closeIdle(open)
	require.Same(t, open, a.only(), "it was used just now")
	open.since = time.Now().Add(-keptTime)
	a.kept.closeIdle(open)
	require.Empty(t, a.kept.free)
	require.NoError(t, a.restore(of, second, t.TempDir()))
	require.NotSame(t, open, a.only())
	require.NoError(t, a.Close())
	require.Empty(t, a.kept.free)
	require.NoDirExists(t, filepath.Dir(ofB.ConfigFilename()), "nothing is left of an open repository")
}

// TestAttemptContinuesAtCheckpoint has a load whose first process was killed after a checkpoint, which is all that it
// has left. The second attempt reads only what the first one has not stored.
func TestAttemptContinuesAtCheckpoint(t *testing.T) {
	t.Parallel()
	root, volume := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "bucket"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(volume, "stored"), []byte("content"), 0o600))
	time.Sleep(2 * time.Second) // a file that is as young as a snapshot is read again
	of := dmv1.Repository{Provider: "cleat.dev/file", Config: map[string]string{"path": root, "bucket": "bucket"},
		Path: "kopia/shop", Password: []byte("secret")}
	c := newClient(t)
	c.create(of)
	r := c.only()
	whole, err := repository.Snapshot(t.Context(), r.Repository, c.backup(of, "1", volume))
	require.NoError(t, err)
	require.NoError(t, repo.WriteSession(t.Context(), r, repo.WriteSessionOptions{},
		func(ctx context.Context, w repo.RepositoryWriter) error {
			begun := *whole
			begun.IncompleteReason, begun.Tags = "checkpoint", map[string]string{repository.KeyTag: "2"}
			_, err := snapshot.SaveSnapshot(ctx, w, &begun)
			return errors.Join(err, w.DeleteManifest(ctx, whole.ID))
		}))
	require.NoError(t, os.WriteFile(filepath.Join(volume, "new"), []byte("content"), 0o600))
	for _, attempt := range []struct {
		again  bool
		cached int32
	}{{true, 1}, {false, 0}} {
		output, err := c.Backup(t.Context(), &dmv1.BackupInput{Repository: of, Key: "2", Again: attempt.again,
			Volume: dmv1.Volume{Path: volume}, Report: func(dmv1.Progress) {}})
		require.NoError(t, err)
		stored, err := repository.Snapshot(t.Context(), c.only().Repository, output.SnapshotID)
		require.NoError(t, err)
		require.Equal(t, attempt.cached, stored.Stats.CachedFiles)
		left, err := repository.Checkpoint(t.Context(), c.only().Repository, "2")
		require.NoError(t, err)
		require.Nil(t, left)
	}
}

// TestFewRepositoriesStayOpen has a client use more repositories than stay open.
func TestFewRepositoriesStayOpen(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "bucket"), 0o750))
	c := newClient(t)
	var all []*opened
	for _, namespace := range []string{"a", "b", "c"} {
		c.create(dmv1.Repository{Provider: "cleat.dev/file", Config: map[string]string{"path": root, "bucket": "bucket"},
			Path: "kopia/" + namespace, Password: []byte("secret")})
		all = append(all, c.kept.free[len(c.kept.free)-1])
	}
	require.Equal(t, all[1:], c.kept.free)
}
