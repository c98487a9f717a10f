package kopia_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/maintenance"
	"github.com/kopia/kopia/repo/manifest"
	"github.com/kopia/kopia/snapshot"
	"github.com/kopia/kopia/snapshot/upload"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/kopia"
	kopiarepository "github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
	files "github.com/cleat-dev/cleat/plugins/kopia/internal/volume"
)

// allocated returns how many bytes of storage a file has.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// described returns what each object of a volume is, as far as kopia keeps it.
func described(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprintf("%v %d:%d %s", info.Mode(), stat.Uid, stat.Gid, info.ModTime().Format(time.RFC3339Nano))
		switch info.Mode().Type() {
		case fs.ModeSymlink:
			to, err := os.Readlink(path)
			all[path[len(dir):]] = text + " -> " + to
			return err
		case 0:
			content, err := os.ReadFile(path)
			all[path[len(dir):]] = fmt.Sprintf("%s %d bytes %.100q", text, len(content), content)
			return err
		}
		all[path[len(dir):]] = text
		return nil
	}))
	return all
}

func TestVolumeOfOddThingsComesBack(t *testing.T) {
	t.Parallel()
	m := mover(t)
	r, volume, target := repository(t, m), t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(volume, name) }
	write(t, volume, map[string]string{
		"plain": "content", "empty": "", "mode": "x", "sub/dir/file": "y", "new\nline": "z", "*": "star", "back\\slash": "b",
		strings.Repeat("l", 255): "long", "z/.kopiaignore": "*\n", "z/kept": "kept",
		"cache/CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n", "cache/kept": "kept",
	})
	require.NoError(t, os.Chmod(at("mode"), 0o751|fs.ModeSetuid))
	require.NoError(t, os.Symlink("circle", at("circle")))
	require.NoError(t, os.Symlink("../..", at("sub/up")))
	require.NoError(t, os.Symlink("no\xffwhere", at("dangling")))
	require.NoError(t, os.Mkdir(at("closed"), 0o500))
	if os.Getuid() == 0 {
		require.NoError(t, os.Lchown(at("sub"), 1234, 5678))
		require.NoError(t, os.Lchown(at("mode"), 1234, 5678))
		require.NoError(t, os.Chmod(at("mode"), 0o751|fs.ModeSetuid)) // chown has removed it
		require.NoError(t, os.Lchown(at("dangling"), 12, 34))
	}
	old := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	require.NoError(t, os.Chtimes(at("plain"), old, old))
	require.NoError(t, os.Chtimes(at("sub"), old, old))
	stored := backup(t, m, r, "k", volume)
	require.Empty(t, stored.Warnings)
	for range 2 { // the second time, everything is there
		require.Empty(t, restore(t, m, r, stored.SnapshotID, target).Warnings)
		require.Equal(t, described(t, volume), described(t, target))
	}
}

// TestAcceptVolumes_Traps has one test for each trap of kopia that was found by a spike.
func TestAcceptVolumes_Traps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"a restore follows links out of the volume": trapLinks,
		"ignore files drop files":                   trapIgnored,
		"placeholders are deleted":                  trapPlaceholders,
		"what is not kept is not reported":          trapLosses,
		"a changed file looks unchanged":            trapUnchanged,
		"a touched file looks changed":              trapTouched,
		"an incomplete snapshot is stored":          trapIncomplete,
		"a cancelled backup uploads all again":      trapCancelled,
		"a missing bucket looks like no repository": trapBucket,
		"maintenance deletes what is being written": trapSafety,
		"a fatal error ends the process":            trapFatal,
		"garbage collection skips bad manifests":    trapManifests,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func trapLinks(t *testing.T) {
	m := mover(t)
	r, volume, target, outside := repository(t, m), t.TempDir(), t.TempDir(), t.TempDir()
	write(t, volume, map[string]string{"etc/passwd": "root", "file": "content", "dir/a": "a"})
	require.NoError(t, os.Symlink("elsewhere", filepath.Join(volume, "link")))
	stored := backup(t, m, r, "k", volume)
	write(t, outside, map[string]string{"file": "outside"})
	// links are where a directory and a file will be, a directory where a link will be, a file where a directory will be
	require.NoError(t, os.Symlink(outside, filepath.Join(target, "etc")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(target, "file")))
	write(t, target, map[string]string{"link/x/y": "in the way", "dir": "in the way"})
	restore(t, m, r, stored.SnapshotID, target)
	require.Equal(t, described(t, volume), described(t, target))
	require.Equal(t, "outside", read(t, outside, "file"))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	require.NoError(t, os.Remove(filepath.Join(target, "file")))
	write(t, target, map[string]string{"file/x": "in the way"})
	restore(t, m, r, stored.SnapshotID, target)
	require.Equal(t, described(t, volume), described(t, target))
}

func trapIgnored(t *testing.T) {
	m := mover(t)
	r, volume, target := repository(t, m), t.TempDir(), t.TempDir()
	write(t, volume, map[string]string{".kopiaignore": "*", "a": "content",
		"cache/CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n", "cache/b": "content"})
	restore(t, m, r, backup(t, m, r, "k", volume).SnapshotID, target)
	require.Equal(t, described(t, volume), described(t, target))
}

func trapPlaceholders(t *testing.T) {
	m := mover(t)
	r, volume, target := repository(t, m), t.TempDir(), t.TempDir()
	write(t, volume, map[string]string{"plain": "content", "plain.kopia-entry": "mine", "other.kopia-entry": "{}",
		"dir.kopia-entry/a": "in it", "dir/b": "beside"})
	stored := backup(t, m, r, "k", volume)
	require.Len(t, stored.Warnings, 1)
	require.Contains(t, stored.Warnings[0], `3 names end in .kopia-entry`)
	require.Contains(t, stored.Warnings[0], `"plain.kopia-entry"`)
	restore(t, m, r, stored.SnapshotID, target)
	require.Equal(t, described(t, volume), described(t, target))
}

func trapLosses(t *testing.T) {
	m := mover(t)
	r, volume, target := repository(t, m), t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(volume, name) }
	write(t, volume, map[string]string{"n\xff": "a byte", `n\xff`: "four characters", "n\xfe": "another", "n\uefff": "a character",
		"linked": "content", "attributes": "x"})
	require.NoError(t, os.Link(at("linked"), at("hardlink")))
	require.NoError(t, syscall.Mkfifo(at("fifo"), 0o640))
	want := []string{
		`1 FIFOs, sockets or devices, which kopia does not store: they are not in the snapshot: "fifo"`,
		`2 files have several names`,
	}
	if err := unix.Setxattr(at("attributes"), "user.cleat", []byte("value"), 0); err == nil {
		want = append(want, `1 objects have extended attributes, such as ACLs or capabilities, which kopia does not store`)
	}
	stored := backup(t, m, r, "k", volume)
	require.Len(t, stored.Warnings, len(want), "%q", stored.Warnings)
	all := strings.Join(stored.Warnings, "\n")
	for _, one := range want {
		require.Contains(t, all, one)
	}
	restore(t, m, r, stored.SnapshotID, target)
	require.NoError(t, os.Remove(at("fifo")))
	require.Equal(t, described(t, volume), described(t, target), "no name replaces another")
	require.NoFileExists(t, filepath.Join(target, "fifo"))
}

func trapUnchanged(t *testing.T) {
	m := mover(t, func(c *kopia.Config) { c.CompareCtime = true })
	r, volume, target := repository(t, m), t.TempDir(), t.TempDir()
	write(t, volume, map[string]string{"a": "before", "b": "stays"})
	backup(t, m, r, "k-1", volume)
	file := filepath.Join(volume, "a")
	info, err := os.Stat(file)
	require.NoError(t, err)
	write(t, volume, map[string]string{"a": "behind"})
	require.NoError(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
	restore(t, m, r, backup(t, m, r, "k-2", volume).SnapshotID, target)
	require.Equal(t, "behind", read(t, target, "a"), "size, mode, owner and time are the same")
}

// trapTouched has the owner and the mode of files set to what they are, as the kubelet does for each start of a pod with
// an fsGroup.
func trapTouched(t *testing.T) {
	m, strict := mover(t), mover(t, func(c *kopia.Config) { c.CompareCtime = true })
	r, volume := repository(t, m), t.TempDir()
	write(t, volume, map[string]string{"a": "content", "b": "more", "c/d": "deep"})
	backup(t, m, r, "k-1", volume)
	for _, name := range []string{"a", "c/d"} {
		file := filepath.Join(volume, name)
		require.NoError(t, os.Lchown(file, -1, os.Getgid()))
		require.NoError(t, os.Chmod(file, 0o600))
	}
	require.NoError(t, os.Chmod(filepath.Join(volume, "b"), 0o640), "this is a change")
	backup(t, m, r, "k-2", volume)
	backup(t, strict, r, "k-3", volume)
	read := map[string]int32{}
	for _, one := range snapshots(t, r) {
		read[one.Tags[kopiarepository.KeyTag]] = one.Stats.NonCachedFiles
	}
	require.Equal(t, map[string]int32{"k-1": 3, "k-2": 1, "k-3": 3}, read)
}

func trapIncomplete(t *testing.T) {
	m := mover(t)
	r, volume := repository(t, m), t.TempDir()
	write(t, volume, map[string]string{"open": "content", "z/also": "more"})
	loop := filepath.Join(volume, "unreadable")
	if err := os.Mkdir(loop, 0o750); err != nil {
		t.Fatal(err)
	}
	// a file that cannot be read even by root: the memory of a process, which has nothing at its beginning
	if err := unix.Mount("/proc/self/mem", loop, "", unix.MS_BIND, ""); err == nil {
		t.Cleanup(func() { _ = unix.Unmount(loop, 0) })
	} else if os.Getuid() != 0 {
		require.NoError(t, os.Chmod(loop, 0))
		t.Cleanup(func() { _ = os.Chmod(loop, 0o700) })
	} else {
		t.Skip("nothing is unreadable for root here")
	}
	_, err := m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "k", Volume: dmv1.Volume{Path: volume},
		Source: ofPod()})
	require.ErrorContains(t, err, "volume: 1 files could not be read")
	require.Empty(t, snapshots(t, r), "nobody must find a snapshot that lacks something")
}

// canceller cancels a load when half of it was read.
type canceller struct {
	upload.NullUploadProgress
	left   atomic.Int64
	cancel func()
}

// HashedBytes implements upload.Progress.
func (c *canceller) HashedBytes(n int64) {
	if c.left.Add(-n) < 0 {
		c.cancel()
	}
}

func trapCancelled(t *testing.T) {
	m := mover(t)
	r, volume := repository(t, m), t.TempDir()
	const many, size = 24, 1 << 18
	for i := range many {
		write(t, volume, map[string]string{fmt.Sprintf("%02d", i): random(size)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	half := &canceller{cancel: cancel}
	half.left.Store(many * size / 2)
	root, err := files.Source(volume, files.Options{Losses: &files.Losses{}})
	require.NoError(t, err)
	err = repo.WriteSession(t.Context(), opened(t, r), repo.WriteSessionOptions{Purpose: "test"},
		func(_ context.Context, w repo.RepositoryWriter) error {
			_, err := kopiarepository.Store(ctx, w, &kopiarepository.Load{
				Source: kopiarepository.Source("p"), Root: root, Tags: map[string]string{kopiarepository.KeyTag: "k"},
				Compressor: "none", Files: 2, Progress: half, Accept: func(*snapshot.Manifest) error { return nil },
			})
			return err
		})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, snapshots(t, r))
	again, err := m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "k", Again: true,
		Volume: dmv1.Volume{Path: volume}, Source: ofPod()})
	require.NoError(t, err)
	require.Less(t, again.NewBytes, int64(many*size*2/3), "what was uploaded is kept")

	// the call itself
	write(t, volume, map[string]string{"large": random(64 << 20)})
	calling, cancelCall := context.WithCancel(t.Context())
	defer cancelCall()
	_, err = m.Backup(calling, &dmv1.BackupInput{
		Repository: r, Key: "k-2", Volume: dmv1.Volume{Path: volume}, Source: ofPod(),
		Report: func(dmv1.Progress) { cancelCall() },
	})
	require.ErrorIs(t, err, context.Canceled)
}

func trapBucket(t *testing.T) {
	r := directory(t)
	r.Config["bucket"] = "absent"
	_, err := mover(t).Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.ErrorIs(t, err, framework.ErrUnavailable)
	require.ErrorContains(t, err, "the bucket of the location")
}

func trapSafety(t *testing.T) {
	m := mover(t)
	r, volume := repository(t, m), t.TempDir()
	write(t, volume, map[string]string{"a": random(1 << 20)})
	stored := backup(t, m, r, "k", volume)
	_, err := m.Forget(t.Context(), &dmv1.ForgetInput{Repository: r, SnapshotIDs: []string{stored.SnapshotID}})
	require.NoError(t, err)
	maintained, err := m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
	require.NoError(t, err)
	require.Less(t, maintained.FreedBytes, int64(1<<20), "the data is younger than a day")
	again := backup(t, m, r, "k-2", volume)
	require.Less(t, again.NewBytes, int64(1<<20), "the data is still there")
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Data})
	require.NoError(t, err)
}

func trapFatal(t *testing.T) {
	r := repository(t, mover(t))
	st, err := storage.OpenDirectory(t.Context(), folder(r), false)
	require.NoError(t, err)
	now := time.Now()
	old, err := kopiarepository.Open(t.Context(), st, kopiarepository.Options{
		Password: password, Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	// a client of tomorrow adds a feature that this one does not have
	formats := opened(t, r).FormatManager()
	features, err := formats.RequiredFeatures(t.Context())
	require.NoError(t, err)
	params, err := formats.GetMutableParameters(t.Context())
	require.NoError(t, err)
	config, err := formats.BlobCfgBlob(t.Context())
	require.NoError(t, err)
	require.NoError(t, formats.SetParameters(t.Context(), params, config, append(features, featureOf(features))))
	now = now.Add(time.Hour) // the format is read again
	require.ErrorContains(t, kopiarepository.Forget(t.Context(), old, []*snapshot.Manifest{{ID: "none"}}), "of-tomorrow")
	require.ErrorContains(t, old.Close(t.Context()), "of-tomorrow")
}

// featureOf returns a feature for a list. Its type is internal to kopia.
func featureOf[T any](_ []T) (feature T) {
	text := `{"feature": "of-tomorrow"}`
	if err := json.Unmarshal([]byte(text), &feature); err != nil {
		panic(err)
	}
	return feature
}

func trapManifests(t *testing.T) {
	m := mover(t)
	r, volume := repository(t, m), t.TempDir()
	write(t, volume, map[string]string{"a": "content"})
	backup(t, m, r, "k", volume)
	require.NoError(t, repo.WriteSession(t.Context(), opened(t, r), repo.WriteSessionOptions{Purpose: "test"},
		func(ctx context.Context, w repo.RepositoryWriter) error {
			_, err := w.PutManifest(ctx, map[string]string{
				manifest.TypeLabelKey: snapshot.ManifestType, "username": "default", "hostname": "default", "path": "p",
			}, []int{1})
			return err
		}))
	_, err := m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
	require.ErrorContains(t, err, "read the manifest of snapshot")
	schedule, err := maintenance.GetSchedule(t.Context(), opened(t, r))
	require.NoError(t, err)
	require.Empty(t, schedule.Runs, "nothing was collected")
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Structure})
	require.ErrorContains(t, err, "damaged")
}
