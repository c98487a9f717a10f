package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"
)

const snapshot = "op-0123456789abcdef0123456789abcdef"

// mover returns a mover with small packs.
func mover(t *testing.T) *Mover {
	t.Helper()
	bucket := memblob.OpenBucket(nil)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	return &Mover{Bucket: bucket, PackSize: 10_000, Streams: 3}
}

// volume returns a directory with files of all shapes.
func volume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.NewChaCha8([32]byte{1})
	write := func(name string, size int, mode fs.FileMode) {
		content := make([]byte, size)
		_, _ = random.Read(content)
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, content, 0o600))
		require.NoError(t, os.Chmod(file, mode))
		require.NoError(t, os.Chtimes(file, time.Time{}, time.Unix(1e9+int64(size), 123456789)))
	}
	for i := range 200 {
		write(fmt.Sprintf("small/%d/f%d", i%5, i), i*7, 0o644)
	}
	for name, size := range map[string]int{
		"empty": 0, "byte": 1, "pack": 10_000, "pack+1": 10_001, "pack-1": 9_999, "large": 123_456,
		"ünïcode \n name": 77, "secret": 10, "read only/file": 500,
	} {
		write(name, size, 0o640)
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "secret"), 0o400))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "twin-1"), []byte("twins"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "twin-2"), []byte("twins"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "zeros"), make([]byte, 15_000), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty dir"), 0o700))
	require.NoError(t, os.Symlink("small/1", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("/etc/nowhere", filepath.Join(dir, "outside")))
	require.NoError(t, os.Chmod(filepath.Join(dir, "read only"), 0o500))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "small"), time.Time{}, time.Unix(1e9, 5)))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "read only"), 0o700) })
	return dir
}

// describe returns everything that a restore has to reproduce.
func describe(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, found fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := found.Info()
		require.NoError(t, err)
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		switch info.Mode().Type() {
		case fs.ModeSymlink:
			all[name], err = os.Readlink(path)
		case fs.ModeDir:
			all[name] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano())
		default:
			var content []byte
			content, err = os.ReadFile(path)
			all[name] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), sumOf(content))
		}
		return err
	}))
	return all
}

func TestEverythingReturns(t *testing.T) {
	t.Parallel()
	m, source, target := mover(t), volume(t), filepath.Join(t.TempDir(), "new")
	var sent, fetched Progress
	require.NoError(t, m.Backup(t.Context(), source, snapshot, &sent))
	require.NoError(t, CheckEmpty(target))
	require.NoError(t, m.Restore(t.Context(), snapshot, target, &fetched))
	require.Equal(t, describe(t, source), describe(t, target))
	require.ErrorContains(t, CheckEmpty(target), "restore into an empty volume")
	for _, progress := range []*Progress{&sent, &fetched} {
		count, begun := progress.Count()
		require.True(t, begun)
		require.Equal(t, Count{BytesDone: count.BytesTotal, BytesTotal: count.BytesTotal, FilesDone: 212, FilesTotal: 212},
			count)
	}
	packs, err := m.list(t.Context(), snapshot+"/packs/")
	require.NoError(t, err)
	require.Less(t, len(packs), 45, "small files share packs")
	// A restore that has finished, but whose end was not recorded, is repeated.
	require.NoError(t, m.Restore(t.Context(), snapshot, target, &fetched))
	require.Equal(t, describe(t, source), describe(t, target))
	require.NoError(t, m.Delete(t.Context(), snapshot))
	left, err := m.list(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, m.Delete(t.Context(), snapshot))
}

// onPack is a Limiter that is called before each pack.
type onPack func()

func (f onPack) WaitN(ctx context.Context, _ int) error {
	f()
	return ctx.Err()
}

func (f onPack) Burst() int { return 1 << 30 }

// Backup and restore are interrupted before certain packs, and continued.
func TestInterruptedTransfersGoOn(t *testing.T) {
	t.Parallel()
	source := volume(t)
	want := describe(t, source)
	whole := mover(t)
	require.NoError(t, whole.Backup(t.Context(), source, snapshot, &Progress{}))
	objects, err := whole.list(t.Context(), snapshot+"/packs/")
	require.NoError(t, err)
	packs := len(objects)

	for endAt := 1; endAt <= packs; endAt += 6 {
		m, target := mover(t), t.TempDir()
		m.Streams = 1
		for _, transfer := range []func(ctx context.Context, progress *Progress) error{
			func(ctx context.Context, progress *Progress) error { return m.Backup(ctx, source, snapshot, progress) },
			func(ctx context.Context, progress *Progress) error { return m.Restore(ctx, snapshot, target, progress) },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			var first, second Progress
			n := 0
			m.Limit = onPack(func() {
				if n++; n == endAt {
					cancel()
				}
			})
			require.ErrorIs(t, transfer(ctx, &first), context.Canceled)
			before, begun := first.Count()
			require.True(t, begun)
			require.Less(t, before.BytesDone, before.BytesTotal)

			n = 0
			m.Limit = onPack(func() { n++ })
			require.NoError(t, transfer(t.Context(), &second))
			require.LessOrEqual(t, n, packs-(endAt-1), "packs of the first attempt are not moved again")
			after, _ := second.Count()
			require.Equal(t, after.BytesTotal, after.BytesDone)
			require.Equal(t, after.FilesTotal, after.FilesDone)
		}
		require.Equal(t, want, describe(t, target))
	}
}

func TestFilesThatChangeAreErrorsOrSentAgain(t *testing.T) {
	t.Parallel()
	m, source, target := mover(t), t.TempDir(), t.TempDir()
	file := filepath.Join(source, "log")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("a"), 25_000), 0o600))
	m.Streams = 1
	change := sync.OnceFunc(func() { require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("b"), 26_000), 0o600)) })
	m.Limit = onPack(change)
	err := m.Backup(t.Context(), source, snapshot, &Progress{})
	require.ErrorContains(t, err, "read log: it changed during the backup: stop what writes to it")
	require.NoError(t, m.Backup(t.Context(), source, snapshot, &Progress{}))
	require.NoError(t, m.Restore(t.Context(), snapshot, target, &Progress{}))
	require.Equal(t, describe(t, source)["log"], describe(t, target)["log"])
}

func TestOddFilesAreErrors(t *testing.T) {
	t.Parallel()
	m, source := mover(t), t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(source, "pipe"), 0o600))
	require.ErrorContains(t, m.Backup(t.Context(), source, snapshot, &Progress{}), "pipe is p")
	require.ErrorIs(t, m.Backup(t.Context(), filepath.Join(source, "missing"), snapshot, &Progress{}), fs.ErrNotExist)
}

// A restore reports any damage in the bucket and writes no wrong content.
func TestDamagedSnapshotsAreReported(t *testing.T) {
	t.Parallel()
	m, source := mover(t), volume(t)
	require.NoError(t, m.Backup(t.Context(), source, snapshot, &Progress{}))
	require.ErrorContains(t, m.Restore(t.Context(), "op-other", t.TempDir(), &Progress{}), "read op-other/manifest.json")
	packs, err := m.list(t.Context(), snapshot+"/packs/")
	require.NoError(t, err)
	for _, key := range []string{packs[0], packs[len(packs)/2], manifestKey(snapshot)} {
		good, err := m.get(t.Context(), key)
		require.NoError(t, err)
		flipped := bytes.Clone(good)
		flipped[len(flipped)/2] ^= 4
		for name, damaged := range map[string][]byte{
			"empty": {}, "cut": good[:len(good)-1], "flipped": flipped, "longer": append(bytes.Clone(good), "}"...),
			"null": []byte("null"),
		} {
			require.NoError(t, m.put(t.Context(), key, damaged))
			require.ErrorContains(t, m.Restore(t.Context(), snapshot, t.TempDir(), &Progress{}), "damaged", "%s %s", key, name)
		}
		require.NoError(t, m.put(t.Context(), key, good))
	}
	require.NoError(t, m.Bucket.Delete(t.Context(), packs[1]))
	require.ErrorContains(t, m.Restore(t.Context(), snapshot, t.TempDir(), &Progress{}), "read "+packs[1])
}

// A damaged index only costs time: its chunks are sent again.
func TestDamagedIndexIsIgnored(t *testing.T) {
	t.Parallel()
	m, source, target := mover(t), volume(t), t.TempDir()
	require.NoError(t, m.Backup(t.Context(), source, snapshot, &Progress{}))
	indexes, err := m.list(t.Context(), snapshot+"/index/")
	require.NoError(t, err)
	require.NoError(t, m.put(t.Context(), indexes[0], []byte("{}")))
	n := 0
	m.Streams, m.Limit = 1, onPack(func() { n++ })
	require.NoError(t, m.Backup(t.Context(), source, snapshot, &Progress{}))
	require.Equal(t, 1, n)
	require.NoError(t, m.Restore(t.Context(), snapshot, target, &Progress{}))
	require.Equal(t, describe(t, source), describe(t, target))
}

func TestForeignManifestsAreRefused(t *testing.T) {
	t.Parallel()
	top := entry{Path: ".", Mode: fs.ModeDir | 0o755}
	sum := strings.Repeat("a", 64)
	file := func(path string, chunks ...chunk) entry {
		return entry{Path: path, Mode: 0o600, Size: 10, Chunks: chunks}
	}
	fine := chunk{Length: 10, SHA256: sum, Pack: sum}
	require.NoError(t, (&manifest{Entries: []entry{top, file("a", fine)}}).check())
	for name, entries := range map[string][]entry{
		"nothing": nil, "no top": {file("a", fine)},
		"above":          {top, file("../a", fine)},
		"absolute":       {top, file("/a", fine)},
		"not clean":      {top, file("b/../a", fine)},
		"twice":          {top, file("a", fine), file("a", fine)},
		"no directory":   {top, file("b/a", fine)},
		"below a link":   {top, {Path: "b", Mode: fs.ModeSymlink, Link: "/etc"}, file("b/a", fine)},
		"a device":       {top, {Path: "b", Mode: fs.ModeDevice}},
		"too short":      {top, file("a", chunk{Length: 9, SHA256: sum, Pack: sum})},
		"a hole":         {top, file("a", chunk{Offset: 1, Length: 9, SHA256: sum, Pack: sum})},
		"negative":       {top, file("a", chunk{Length: -1, SHA256: sum, Pack: sum}, fine)},
		"before a pack":  {top, file("a", chunk{Length: 10, SHA256: sum, Pack: sum, At: -1})},
		"far in a pack":  {top, file("a", chunk{Length: 10, SHA256: sum, Pack: sum, At: 1 << 62})},
		"another folder": {top, file("a", chunk{Length: 10, SHA256: sum, Pack: "../x"})},
	} {
		require.Error(t, (&manifest{Entries: entries}).check(), name)
	}
}

func TestLimitSlowsTransfersDown(t *testing.T) {
	t.Parallel()
	m, source := mover(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(source, "f"), make([]byte, 120_000), 0o600))
	m.Limit = NewLimit(40_000)
	began := time.Now()
	require.NoError(t, m.Backup(t.Context(), source, snapshot, &Progress{}))
	require.GreaterOrEqual(t, time.Since(began), 1900*time.Millisecond, "the first 40,000 bytes are free")

	ctx, cancel := context.WithCancel(t.Context())
	m.Limit = NewLimit(1)
	time.AfterFunc(10*time.Millisecond, cancel)
	require.ErrorIs(t, m.Restore(ctx, snapshot, t.TempDir(), &Progress{}), context.Canceled)
}

// A bucket that fails for a while only delays a transfer.
func TestBucketMayBeAwayForAWhile(t *testing.T) {
	t.Parallel()
	m := mover(t)
	m.Patience = time.Minute
	failures := 3
	require.NoError(t, m.patiently(t.Context(), "write", "key", func() error {
		if failures--; failures >= 0 {
			return errors.New("connection refused")
		}
		return nil
	}))
	calls := 0
	err := m.patiently(t.Context(), "read", "key", func() error {
		calls++
		_, err := m.Bucket.ReadAll(t.Context(), "missing")
		return err
	})
	require.ErrorContains(t, err, "read key in the bucket")
	require.Equal(t, 1, calls)
}
