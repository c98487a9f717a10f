package volume_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kopia/kopia/fs"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins/kopia/internal/volume"
)

// stored is a file of a snapshot with any name.
type stored struct {
	fs.File
	name, content string
	says          int64 // the size
}

func (s stored) Name() string       { return s.name }
func (s stored) Size() int64        { return s.says }
func (s stored) Mode() os.FileMode  { return 0o640 }
func (s stored) ModTime() time.Time { return time.Unix(1, 2) }
func (s stored) Owner() fs.OwnerInfo {
	return fs.OwnerInfo{UserID: uint32(os.Getuid()), GroupID: uint32(os.Getgid())}
}
func (s stored) Open(context.Context) (fs.Reader, error) {
	return opened{Reader: strings.NewReader(s.content)}, nil
}

type opened struct{ *strings.Reader }

func (opened) Close() error             { return nil }
func (opened) Entry() (fs.Entry, error) { return nil, io.ErrUnexpectedEOF }

func nothing(int64) {}

func TestNamesThatLeaveTheVolumeAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join(dir, "volume")
	require.NoError(t, os.Mkdir(root, 0o750))
	target, err := volume.NewTarget(root, false, nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Free()) })
	for at, name := range map[string]string{
		"../out": "../out", "..": "..", "a/b": "a/b", ".": ".", "sub/../../out": "out", "nul\x00": "nul\x00", "x": "y",
	} {
		err := target.WriteFile(t.Context(), at, stored{name: name, content: "x", says: 1}, nothing)
		require.Error(t, err, "%q", at)
	}
	require.ErrorContains(t, target.WriteFile(t.Context(), "../out", stored{name: "../out"}, nothing),
		`the snapshot has an object with the name "../out", want the name of a file`)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	entries, err = os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestFilesHaveTheSizeOfTheSnapshot(t *testing.T) {
	t.Parallel()
	for _, sparse := range []bool{false, true} {
		root := t.TempDir()
		target, err := volume.NewTarget(root, sparse, nil, nil)
		require.NoError(t, err)
		require.NoError(t, target.WriteFile(t.Context(), "a", stored{name: "a", content: "content", says: 7}, nothing))
		info, err := os.Stat(filepath.Join(root, "a"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), info.Mode())
		require.True(t, info.ModTime().Equal(time.Unix(1, 2)))
		err = target.WriteFile(t.Context(), "b", stored{name: "b", content: "content", says: 9}, nothing)
		require.ErrorContains(t, err, `"b" has 7 bytes in the snapshot, want 9`)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, target.WriteFile(ctx, "c", stored{name: "c", content: "content", says: 7}, nothing),
			context.Canceled)
		require.NoError(t, target.Sync())
		require.Empty(t, target.Warnings())
		require.NoError(t, target.Free())
	}
}
