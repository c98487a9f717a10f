package kopia_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kopia/kopia/fs"
	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/object"
	"github.com/kopia/kopia/snapshot"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	kopiarepository "github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
)

const block = 1 << 20

// blocks stores a device as a version of Velero after 1.18 does: in blocks that it lists itself, of which the last one
// is filled up, and with the size of the device in a tag. It returns the id of the snapshot.
func blocks(t *testing.T, r dmv1.Repository, source snapshot.SourceInfo, device []byte, size string) (id string) {
	t.Helper()
	ctx := t.Context()
	put := func(ctx context.Context, w repo.RepositoryWriter, options object.WriterOptions, content []byte) object.ID {
		out := w.NewObjectWriter(ctx, options)
		defer out.Close()
		_, err := out.Write(content)
		require.NoError(t, err)
		stored, err := out.Result()
		require.NoError(t, err)
		return stored
	}
	require.NoError(t, repo.WriteSession(ctx, opened(t, r), repo.WriteSessionOptions{},
		func(ctx context.Context, w repo.RepositoryWriter) error {
			var pieces []object.ID
			for rest := device; len(rest) > 0; rest = rest[min(block, len(rest)):] {
				piece := make([]byte, block)
				copy(piece, rest)
				pieces = append(pieces, put(ctx, w, object.WriterOptions{Splitter: "FIXED-1M"}, piece))
			}
			whole, err := w.ConcatenateObjects(ctx, pieces, repo.ConcatenateOptions{})
			require.NoError(t, err)
			text, err := json.Marshal(snapshot.DirManifest{StreamType: "kopia:directory", Entries: []*snapshot.DirEntry{{
				Name: "dev-sdb", Type: snapshot.EntryTypeFile, Permissions: 0o777, FileSize: int64(len(pieces)) * block,
				ObjectID: whole,
			}}})
			require.NoError(t, err)
			root := put(ctx, w, object.WriterOptions{Prefix: "k"}, text)
			now := fs.UTCTimestampFromTime(w.Time())
			saved, err := snapshot.SaveSnapshot(ctx, w, &snapshot.Manifest{
				Source: source, Description: "Block Uploader", StartTime: now, EndTime: now, Pins: []string{"velero-pin"},
				Tags: map[string]string{kopiarepository.RequesterTag: dmv1.DataUpload,
					kopiarepository.UploaderTag: "velero-block", "bdev-source-size": size, "cbt-change-id": "c", "cbt-volume-id": "v"},
				RootEntry: &snapshot.DirEntry{Name: "bdev-root", Type: snapshot.EntryTypeDirectory, Permissions: 0o777,
					ObjectID: root},
			})
			id = string(saved)
			return err
		}))
	return id
}

// TestSnapshotOfBlocksIsRestored restores what a later version of Velero has stored of a block device.
func TestSnapshotOfBlocksIsRestored(t *testing.T) {
	t.Parallel()
	m := mover(t)
	r := repository(t, m)
	claim := dmv1.Source{Requester: dmv1.DataUpload, Namespace: "shop", Claim: "disk"}
	theirs := kopiarepository.Source("snapshot-data-upload-download/velero-block/shop/disk")
	ours := kopiarepository.Source("snapshot-data-upload-download/kopia/shop/disk")
	const size = 3*block + 512
	device := []byte(random(size))
	id := blocks(t, r, theirs, device, strconv.Itoa(size))

	// Only the bytes of the device are written: the target may have something behind them.
	target := filepath.Join(t.TempDir(), "device")
	behind := random(4*block - size)
	require.NoError(t, os.WriteFile(target, []byte(random(size)+behind), 0o600))
	input := &dmv1.RestoreInput{Repository: r, SnapshotID: id, Volume: dmv1.Volume{Path: target, Block: true}}
	restored, err := m.Restore(t.Context(), input)
	require.NoError(t, err)
	require.EqualValues(t, size, restored.Bytes)
	require.Equal(t, string(device)+behind, read(t, target))

	exact := filepath.Join(t.TempDir(), "exact")
	require.NoError(t, os.WriteFile(exact, make([]byte, size), 0o600))
	input.Volume.Path = exact
	_, err = m.Restore(t.Context(), input)
	require.NoError(t, err, "a device of the same size is large enough")
	require.Equal(t, string(device), read(t, exact))
	require.NoError(t, os.Truncate(exact, size-1))
	_, err = m.Restore(t.Context(), input)
	require.ErrorContains(t, err, "want a volume that is not smaller")

	for name, tt := range map[string]struct {
		size, want string
	}{
		"no size":    {"", `the tag bdev-source-size of snapshot .* is "", want a number of bytes`},
		"no number":  {"4 MiB", `is "4 MiB", want a number of bytes`},
		"negative":   {"-1", `is "-1", want a number of bytes`},
		"incomplete": {strconv.Itoa(5 * block), `it has 4194304 bytes of the 5242880 of the device`},
	} {
		_, err := m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: blocks(t, r, theirs, device, tt.size),
			Volume: dmv1.Volume{Path: target, Block: true}})
		require.ErrorIs(t, err, framework.ErrInvalid, name)
		require.Regexp(t, tt.want, err, name)
	}
	_, err = m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: id,
		Volume: dmv1.Volume{Path: t.TempDir()}})
	require.ErrorIs(t, err, framework.ErrInvalid)
	require.ErrorContains(t, err, "restore it into a claim with volumeMode Block")

	// It is never a parent: not of the same source, and not if it is named.
	same := blocks(t, r, ours, device, strconv.Itoa(size))
	latest, err := kopiarepository.Latest(t.Context(), opened(t, r), ours, dmv1.DataUpload)
	require.NoError(t, err)
	require.Nil(t, latest)
	volume := t.TempDir()
	write(t, volume, map[string]string{"dev-sdb": "x", "file": "y"})
	stored, err := m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "k", Source: claim, Parent: same,
		Volume: dmv1.Volume{Path: volume}})
	require.NoError(t, err)
	one, err := kopiarepository.Snapshot(t.Context(), opened(t, r), stored.SnapshotID)
	require.NoError(t, err)
	require.Zero(t, one.Stats.CachedFiles)

	// It is checked, maintained and forgotten like any other.
	_, err = m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
	require.NoError(t, err)
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Data})
	require.NoError(t, err)
	_, err = m.Forget(t.Context(), &dmv1.ForgetInput{Repository: r, SnapshotIDs: []string{id}})
	require.NoError(t, err)
	_, err = m.Restore(t.Context(), input)
	require.ErrorIs(t, err, framework.ErrNotFound)
}
