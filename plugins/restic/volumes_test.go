package restic_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/restic"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// deep returns the path of a new directory whose path below dir is almost as long as the system permits.
func deep(t *testing.T, dir string) string {
	t.Helper()
	path := dir
	for len(path) < 3800 {
		path = filepath.Join(path, strings.Repeat("d", 200))
	}
	require.NoError(t, os.MkdirAll(path, 0o750))
	return path
}

// oddVolume fills a directory with what a file system can have.
func oddVolume(t *testing.T, dir string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, dir, map[string]string{
		"plain": "content", "empty": "", "mode": "x", "sub/dir/file": "y", "n\xff\xfe": "not UTF-8", "new\nline": "z",
		strings.Repeat("l", 255): "long",
	})
	require.NoError(t, os.Chmod(at("mode"), 0o4751|fs.ModeSetuid))
	require.NoError(t, os.Symlink("circle", at("circle")))
	require.NoError(t, os.Symlink("../..", at("sub/up")))
	require.NoError(t, os.Symlink("nowhere", at("dangling")))
	require.NoError(t, os.Link(at("plain"), at("hardlink")))
	require.NoError(t, syscall.Mkfifo(at("fifo"), 0o640))
	hole, err := os.Create(at("hole"))
	require.NoError(t, err)
	require.NoError(t, hole.Truncate(20<<20))
	_, err = hole.WriteAt([]byte("island"), 10<<20)
	require.NoError(t, err)
	require.NoError(t, hole.Close())
	write(t, deep(t, dir), map[string]string{"file": "deep"})
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(at("s"), 0o750))
	bound := &syscall.SockaddrUnix{Name: filepath.Join(t.TempDir(), "s")}
	if len(bound.Name) < 100 { // a socket has a short path
		require.NoError(t, syscall.Bind(socket, bound))
		require.NoError(t, os.Rename(bound.Name, at("socket")))
	}
	require.NoError(t, syscall.Close(socket))
	if os.Getuid() == 0 {
		require.NoError(t, syscall.Mknod(at("device"), syscall.S_IFCHR|0o600, 1<<8|3))
		require.NoError(t, os.Lchown(at("sub"), 1234, 5678))
		require.NoError(t, os.Lchown(at("dangling"), 12, 34))
	}
	if err := unix.Setxattr(at("plain"), "user.cleat", []byte("value"), 0); err != nil {
		t.Logf("extended attributes are not checked: %v", err)
	}
	old := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	require.NoError(t, os.Chtimes(at("plain"), old, old))
	require.NoError(t, os.Chtimes(at("sub"), old, old))
}

// described returns what each object of a volume is. Sockets are left out, which restic does not restore.
func described(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir || entry.Type() == fs.ModeSocket {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // on Linux
		text := fmt.Sprintf("%v %d:%d rdev %d", info.Mode(), stat.Uid, stat.Gid, stat.Rdev)
		switch {
		case entry.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			all[path[len(dir):]] = text + " -> " + to
			return err
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			value := make([]byte, 100)
			n, _ := unix.Getxattr(path, "user.cleat", value)
			text += fmt.Sprintf(" links %d, %q, %d bytes %q", stat.Nlink, value[:max(n, 0)], len(content),
				strings.Trim(string(content), "\x00"))
		}
		all[path[len(dir):]] = text + info.ModTime().Format(" "+time.RFC3339Nano)
		return nil
	}))
	return all
}

func TestVolumeOfOddThingsComesBack(t *testing.T) {
	t.Parallel()
	m, r, volume, target := mover(t), repository(t), t.TempDir(), t.TempDir()
	oddVolume(t, volume)
	stored := backup(t, m, r, "k", volume)
	if _, err := os.Lstat(filepath.Join(volume, "socket")); err == nil {
		require.Contains(t, stored.Warnings, `1 sockets, which restic does not restore: "socket"`)
	}
	restored, err := m.Restore(t.Context(), &dmv1.RestoreInput{
		Repository: r, SnapshotID: stored.SnapshotID, Volume: dmv1.Volume{Path: target}, Settings: map[string]string{
			"WriteSparseFiles": "true",
		},
	})
	require.NoError(t, err)
	want, got := described(t, volume), described(t, target)
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name := range want {
		require.Equal(t, want[name], got[name], "%q", name)
	}
	help, err := exec.CommandContext(t.Context(), programs.Restic(t), "restore", "--help").Output()
	require.NoError(t, err)
	if !strings.Contains(string(help), "--sparse") {
		require.Contains(t, strings.Join(restored.Warnings, "\n"), "writes the holes of sparse files, which needs 0.15")
	}
}

func TestLinkThatIsNotUTF8IsAWarning(t *testing.T) {
	t.Parallel()
	m, r, volume, target := mover(t), repository(t), t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink("t\xff", filepath.Join(volume, "link")))
	stored := backup(t, m, r, "k", volume)
	_, err := m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: stored.SnapshotID,
		Volume: dmv1.Volume{Path: target}})
	require.NoError(t, err)
	to, err := os.Readlink(filepath.Join(target, "link"))
	require.NoError(t, err)
	require.Equal(t, to != "t\xff", len(stored.Warnings) == 1, "%q", stored.Warnings)
}

// slow makes restic read files one after the other, and wait long enough between them that a test can change those that
// follow.
func slow(c *restic.Config) { c.UploadLimit = "2Mi" }

// whileRead backs up a volume of large files and calls change when the first are being read.
func whileRead(
	t *testing.T, m dmv1.DataMover, r dmv1.Repository, volume string, change func(),
) (*dmv1.BackupOutput, error) {
	t.Helper()
	changed := false
	return m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "k", Volume: dmv1.Volume{Path: volume},
		Report: func(p dmv1.Progress) {
			if !changed && p.DoneBytes > 0 {
				changed = true
				change()
			}
		}})
}

func TestFilesThatChangeWhileTheyAreReadAreNoFailure(t *testing.T) {
	t.Parallel()
	m, r, volume := mover(t, slow), repository(t), t.TempDir()
	for i := range 12 {
		write(t, volume, map[string]string{fmt.Sprintf("a%02d", i): random(1 << 20)})
	}
	write(t, volume, map[string]string{"z-gone": "content", "z-grown": "content", "z-changed": random(1 << 20),
		"zz/also-gone": "content"})
	stored, err := whileRead(t, m, r, volume, func() {
		_ = os.Remove(filepath.Join(volume, "z-gone"))
		_ = os.RemoveAll(filepath.Join(volume, "zz"))
		_ = os.WriteFile(filepath.Join(volume, "z-grown"), []byte(strings.Repeat("content", 1000)), 0o600)
		_ = os.WriteFile(filepath.Join(volume, "z-changed"), []byte("much less"), 0o600)
	})
	require.NoError(t, err)
	require.Len(t, snapshots(t, r), 1)
	target := t.TempDir()
	_, err = m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: stored.SnapshotID,
		Volume: dmv1.Volume{Path: target}})
	require.NoError(t, err)
	require.Equal(t, read(t, volume, "a11"), read(t, target, "a11"))
	if _, err := os.Stat(filepath.Join(target, "z-gone")); err != nil {
		require.Contains(t, strings.Join(stored.Warnings, "\n"),
			`1 deleted while the volume was read, and not in the snapshot: "z-gone"`)
	}
}

func TestFilesThatCannotBeReadFailTheBackup(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); err != nil || os.Getuid() != 0 {
		t.Skip("a file that cannot be read needs root, and setpriv to read it without root's rights")
	}
	program := filepath.Join(t.TempDir(), "restic")
	programs.Write(t, program, fmt.Appendf(nil, "#!/bin/sh\nexec setpriv --bounding-set=-dac_override,-dac_read_search "+
		"-- '%s' \"$@\"\n", programs.Restic(t)))
	m := mover(t, func(c *restic.Config) { c.Program = program })
	r, volume := repository(t), t.TempDir()
	write(t, volume, map[string]string{"open": "content", "closed": "content"})
	require.NoError(t, os.Chmod(filepath.Join(volume, "closed"), 0))
	_, err := m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "k", Volume: dmv1.Volume{Path: volume}})
	require.ErrorContains(t, err, `1 files of the volume could not be read: "closed": open`)
	require.Empty(t, snapshots(t, r), "nobody must find a snapshot that lacks something")
}

func TestRestoreDoesNotLeaveTheVolume(t *testing.T) {
	t.Parallel()
	m, r, volume, target, outside := mover(t), repository(t), t.TempDir(), t.TempDir(), t.TempDir()
	write(t, volume, map[string]string{"etc/passwd": "root", "other": "content"})
	stored := backup(t, m, r, "k", volume)
	input := &dmv1.RestoreInput{Repository: r, SnapshotID: stored.SnapshotID, Volume: dmv1.Volume{Path: target}}
	require.NoError(t, os.Symlink(outside, filepath.Join(target, "harmless")))
	_, err := m.Restore(t.Context(), input)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(target, "etc")))
	require.NoError(t, os.Symlink(outside, filepath.Join(target, "etc")))
	_, err = m.Restore(t.Context(), input)
	require.ErrorContains(t, err, `the volume has a symbolic link "/etc" to "`+outside)
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestDeadResticIsReportedAndItsLockRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, pid := filepath.Join(dir, "restic"), filepath.Join(dir, "pid")
	programs.Write(t, program, fmt.Appendf(nil, "#!/bin/sh\necho $$ > '%s'\nexec '%s' \"$@\"\n", pid, programs.Restic(t)))
	m := mover(t, slow, func(c *restic.Config) { c.Program = program })
	r, volume := repository(t), t.TempDir()
	write(t, volume, map[string]string{"a": random(16 << 20)})
	_, err := whileRead(t, m, r, volume, func() {
		var number int
		if _, err := fmt.Sscan(read(t, pid), &number); err == nil {
			_ = syscall.Kill(number, syscall.SIGKILL)
		}
	})
	require.ErrorContains(t, err, "restic has not ended by itself (signal: killed)")
	require.Empty(t, snapshots(t, r))
	_, err = mover(t).Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
	require.NoError(t, err)
	require.False(t, hasLock(r))
	backup(t, mover(t), r, "k", volume)
}

// TestAcceptVolumes_ResticOfVelero proves that the mover restores what the restic of Velero 1.16 to 1.18 has stored,
// and that this restic restores what the mover has stored: the repositories, arguments and tags are those of Velero.
func TestAcceptVolumes_ResticOfVelero(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1", "2"} { // of repositories: of the restic of older Veleros, and of newer ones
		t.Run("repository version "+version, func(t *testing.T) {
			t.Parallel()
			r, volume, target, cache := directory(t), t.TempDir(), t.TempDir(), t.TempDir()
			passwordFile := filepath.Join(cache, "password")
			write(t, cache, map[string]string{"password": password})
			velero := func(dir string, args ...string) string {
				cmd := exec.CommandContext(t.Context(), programs.Restic(t), append([]string{
					args[0], "--repo=" + folder(r), "--password-file=" + passwordFile, "--cache-dir=" + cache,
				}, args[1:]...)...)
				cmd.Dir = dir
				output, err := cmd.Output()
				require.NoError(t, err)
				return string(output)
			}
			velero(cache, "init", "--repository-version="+version)
			write(t, volume, map[string]string{"data/a": "of Velero", "b": random(1 << 20)})
			tags := []string{
				"--tag=backup=nightly", "--tag=backup-uid=u-1", "--tag=ns=shop", "--tag=pod=web-0", "--tag=pod-uid=p-1",
				"--tag=pvc-uid=c-1", "--tag=volume=data",
			}
			velero(volume, append([]string{"backup", "."}, append(tags, "--host=velero", "--json")...)...)
			var listed []struct {
				Short string `json:"short_id"`
			}
			require.NoError(t, json.Unmarshal([]byte(
				velero(cache, "snapshots", "--json", "--latest=1", "--tag=backup=nightly,ns=shop,volume=data")), &listed))
			require.Len(t, listed, 1)

			m := mover(t)
			checked, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
			require.NoError(t, err)
			require.False(t, checked.Created)
			_, err = m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: listed[0].Short,
				Volume: dmv1.Volume{Path: target}})
			require.NoError(t, err)
			require.Equal(t, described(t, volume), described(t, target))

			write(t, volume, map[string]string{"data/a": "of cleat"})
			ours, err := m.Backup(t.Context(), &dmv1.BackupInput{
				Repository: r, Key: "k", Volume: dmv1.Volume{Path: volume}, Parent: listed[0].Short, Tags: map[string]string{
					"backup": "weekly", "ns": "shop",
				},
			})
			require.NoError(t, err)
			require.Less(t, ours.NewBytes, int64(1<<19), "the parent is Velero's")
			back := t.TempDir()
			velero(back, "restore", ours.SnapshotID, "--target=.")
			require.Equal(t, described(t, volume), described(t, back))
			velero(cache, "forget", ours.SnapshotID[:8])
			velero(cache, "prune")
		})
	}
}
