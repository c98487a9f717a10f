package restic_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	"github.com/cleat-dev/cleat/plugins/restic"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// longEnough limits what takes a moment on an idle machine.
const longEnough = 10 * time.Minute

func impatient(c *restic.Config) { c.LockWait = "0s" }

// TestAcceptVolumes_ResticRepositories proves what becomes of calls on repositories that are not as they should be.
func TestAcceptVolumes_ResticRepositories(t *testing.T) {
	t.Parallel()
	t.Run("locked", locked)
	t.Run("a load is at work", loadAtWork)
	t.Run("stale lock", staleLock)
	t.Run("wrong password", wrongPassword)
	t.Run("of Kopia", ofKopia)
	t.Run("damaged", damaged)
	t.Run("full", full)
	t.Run("away", away)
	t.Run("created by two at once", createdTwice)
	t.Run("in S3", inS3)
}

// held starts restic and stops it while it has a lock. It returns the process.
func held(t *testing.T, r dmv1.Repository, args ...string) *os.Process {
	t.Helper()
	for {
		cmd := exec.Command(programs.Restic(t), append([]string{"--repo", folder(r), "--no-cache"}, args...)...)
		cmd.Env = append(os.Environ(), "RESTIC_PASSWORD="+password)
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = cmd.Wait() }()
		for {
			select {
			case <-ended: // it was faster
			default:
				if !hasLock(r) {
					time.Sleep(time.Millisecond)
					continue
				}
				require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
				if !hasLock(r) {
					require.NoError(t, cmd.Process.Kill())
					<-ended
					break
				}
				t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
				return cmd.Process
			}
			break
		}
	}
}

// hasLock reports whether somebody has a lock of a repository. A file of another name is one that is being written.
func hasLock(r dmv1.Repository) bool {
	locks, _ := filepath.Glob(filepath.Join(folder(r), "locks", strings.Repeat("[0-9a-f]", 64)))
	return len(locks) > 0
}

// eventually waits until a call reports an activity.
func eventually(t *testing.T, activities <-chan string, want string) {
	t.Helper()
	limit := time.After(longEnough)
	for {
		select {
		case activity := <-activities:
			if strings.Contains(activity, want) {
				return
			}
		case <-limit:
			t.Fatalf("the call has not reported %q", want)
		}
	}
}

// activities returns a function that reports to a channel, and the channel.
func activities() (func(dmv1.Progress), <-chan string) {
	reported := make(chan string, 1000)
	return func(p dmv1.Progress) {
		select {
		case reported <- p.Activity:
		default:
		}
	}, reported
}

func locked(t *testing.T) {
	t.Parallel()
	r, volume := repository(t), t.TempDir()
	write(t, volume, map[string]string{"a": "content"})
	stored := backup(t, mover(t), r, "k", volume)
	holder := held(t, r, "prune")
	_, err := mover(t, impatient).Backup(t.Context(),
		&dmv1.BackupInput{Repository: r, Key: "l", Volume: dmv1.Volume{Path: volume}})
	require.ErrorIs(t, err, framework.ErrUnavailable)
	require.ErrorContains(t, err, fmt.Sprintf("repository is already locked exclusively by PID %d", holder.Pid))

	readOnly := r
	readOnly.ReadOnly = true
	target := t.TempDir()
	_, err = mover(t, impatient).Restore(t.Context(),
		&dmv1.RestoreInput{Repository: readOnly, SnapshotID: stored.SnapshotID, Volume: dmv1.Volume{Path: target}})
	require.NoError(t, err, "a restore from a location that is read-only needs no lock")
	require.Equal(t, "content", read(t, target, "a"))

	report, reported := activities()
	done := make(chan error, 1)
	go func() {
		_, err := mover(t).Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "m", Volume: dmv1.Volume{Path: volume},
			Report: report})
		done <- err
	}()
	eventually(t, reported, "waiting: repository is already locked exclusively by PID")
	require.NoError(t, holder.Signal(syscall.SIGCONT))
	require.NoError(t, <-done)
	require.Len(t, snapshots(t, r), 2)
}

func loadAtWork(t *testing.T) {
	t.Parallel()
	r, volume := repository(t), t.TempDir()
	write(t, volume, map[string]string{"a": "content"})
	pipe, feed, err := os.Pipe()
	require.NoError(t, err)
	load := exec.CommandContext(t.Context(), programs.Restic(t), "--repo", folder(r), "--no-cache", "backup", "--stdin")
	load.Env, load.Stdin = append(os.Environ(), "RESTIC_PASSWORD="+password), pipe
	require.NoError(t, load.Start())
	require.Eventually(t, func() bool { return hasLock(r) }, longEnough, 10*time.Millisecond)

	for name, call := range map[string]func(dmv1.DataMover) error{
		"maintain": func(m dmv1.DataMover) error {
			_, err := m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
			return err
		},
		"check": func(m dmv1.DataMover) error {
			_, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Structure})
			return err
		},
	} {
		err := call(mover(t, impatient))
		require.ErrorIs(t, err, framework.ErrUnavailable, name)
		require.ErrorContains(t, err, "repository is already locked by PID", name)
	}
	backup(t, mover(t, impatient), r, "beside", volume)

	report, reported := activities()
	done := make(chan error, 1)
	go func() {
		_, err := mover(t).Maintain(t.Context(), &dmv1.MaintainInput{Repository: r, Report: report})
		done <- err
	}()
	eventually(t, reported, "waiting: repository is already locked by PID")
	_, err = feed.WriteString("content")
	require.NoError(t, err)
	require.NoError(t, feed.Close())
	require.NoError(t, load.Wait())
	require.NoError(t, <-done)
	require.Len(t, snapshots(t, r), 2)
}

func staleLock(t *testing.T) {
	t.Parallel()
	r := repository(t)
	holder := held(t, r, "prune")
	require.NoError(t, holder.Kill())
	require.Eventually(t, func() bool { return holder.Signal(syscall.Signal(0)) != nil }, longEnough, time.Millisecond)
	volume := t.TempDir()
	require.Empty(t, backup(t, mover(t), r, "k", volume).SnapshotID, "the volume holds nothing")
	require.Empty(t, snapshots(t, r))
	require.False(t, hasLock(r))
}

func wrongPassword(t *testing.T) {
	t.Parallel()
	r := repository(t)
	r.Password = []byte("another-secret")
	_, err := mover(t).Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.ErrorIs(t, err, framework.ErrInvalid)
	require.ErrorContains(t, err, "the password is wrong: the key repository-password of the Secret "+
		"velero-repo-credentials must be")
	require.NotContains(t, err.Error(), "another-secret")
	for _, odd := range []string{"", "two\nlines", strings.Repeat("x", 4097)} {
		r.Password = []byte(odd)
		_, err := mover(t).Check(t.Context(), &dmv1.CheckInput{Repository: r})
		require.ErrorContains(t, err, "must be one line of 1 to 4096 bytes")
	}
}

func ofKopia(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"kopia.repository.f", "udmrepo.Repository"} {
		r := directory(t)
		write(t, folder(r), map[string]string{file: "{}"})
		_, err := mover(t).Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
		require.ErrorIs(t, err, framework.ErrInvalid)
		require.ErrorContains(t, err, "is one of Kopia, which cleat.dev/restic cannot read. Restore its snapshots with "+
			"Velero's node agent")
	}
}

// packs returns the files with data of a repository, the largest first.
func largestPack(t *testing.T, r dmv1.Repository) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder(r), "data", "*", "*"))
	require.NoError(t, err)
	largest, size := "", int64(-1)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		if info.Size() > size {
			largest, size = file, info.Size()
		}
	}
	return largest
}

func damaged(t *testing.T) {
	t.Parallel()
	m, r, volume := mover(t), repository(t), t.TempDir()
	write(t, volume, map[string]string{"a": random(300 << 10)})
	stored := backup(t, m, r, "k", volume)
	pack := largestPack(t, r)
	require.NoError(t, os.Chmod(pack, 0o600))
	content := []byte(read(t, pack))
	content[len(content)/3] ^= 1
	require.NoError(t, os.WriteFile(pack, content, 0o600))
	_, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Structure})
	require.NoError(t, err, "a flipped bit is found only if all data is read")
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Data})
	require.ErrorContains(t, err, "the repository is damaged")
	_, err = m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: stored.SnapshotID,
		Volume: dmv1.Volume{Path: t.TempDir()}})
	require.ErrorContains(t, err, "the repository is damaged")
	require.NoError(t, os.Remove(pack))
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Structure})
	require.ErrorContains(t, err, "the repository is damaged")

	require.NoError(t, os.Chmod(filepath.Join(folder(r), "config"), 0o600))
	require.NoError(t, os.Truncate(filepath.Join(folder(r), "config"), 20))
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r})
	require.ErrorContains(t, err, "repository cleat.dev/file backups/velero/restic/shop")
}

func full(t *testing.T) {
	t.Parallel()
	r, volume := repository(t), t.TempDir()
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a file system that is full needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(small, syscall.MNT_DETACH)) })
	old := folder(r)
	r.Config["path"] = small
	require.NoError(t, os.CopyFS(folder(r), os.DirFS(old)))
	write(t, volume, map[string]string{"a": random(4 << 20)})
	_, err := mover(t).Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "k", Volume: dmv1.Volume{Path: volume}})
	require.ErrorContains(t, err, "the storage is full")
}

func away(t *testing.T) {
	t.Parallel()
	m, r := mover(t), repository(t)
	require.NoError(t, os.Rename(filepath.Join(r.Config["path"], "backups"), filepath.Join(r.Config["path"], "gone")))
	_, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.ErrorIs(t, err, framework.ErrUnavailable, "a file system that is not mounted must not get a new repository")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	credentials := filepath.Join(t.TempDir(), "credentials")
	write(t, filepath.Dir(credentials), map[string]string{"credentials": "[default]\naws_access_key_id = " +
		"a\naws_secret_access_key = b\n"})
	r.Provider, r.Config = "velero.io/aws", map[string]string{
		"bucket": "b", "s3Url": "http://" + address, "region": "minio", "s3ForcePathStyle": "true",
		"credentialsFile": credentials,
	}
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.ErrorIs(t, err, framework.ErrUnavailable)
	require.ErrorContains(t, err, "nothing answers at http://"+address)
}

func createdTwice(t *testing.T) {
	t.Parallel()
	m, r := mover(t), directory(t)
	created := make(chan bool, 2)
	for range 2 {
		go func() {
			checked, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
			created <- err == nil && checked.Created
		}()
	}
	require.NotEqual(t, <-created, <-created)
	backup(t, m, r, "k", t.TempDir())
}

// spy returns a program that writes down with which arguments and variables it is called, and then is restic.
func spy(t *testing.T) (program, notes string) {
	t.Helper()
	dir := t.TempDir()
	program, notes = filepath.Join(dir, "restic"), filepath.Join(dir, "notes")
	programs.Write(t, program, fmt.Appendf(nil, "#!/bin/sh\n{ echo called; printf '%%s\\n' \"$@\"; env; } >> '%s'\nexec "+
		"'%s' \"$@\"\n", notes, programs.Restic(t)))
	return program, notes
}

func inS3(t *testing.T) {
	t.Parallel()
	program, notes := spy(t)
	c := plane.Get(t)
	credentials := filepath.Join(t.TempDir(), "credentials")
	write(t, filepath.Dir(credentials), map[string]string{
		"credentials": fmt.Sprintf("[backups]\naws_access_key_id = %s\naws_secret_access_key = %s\n", c.S3.AccessKey,
			c.S3.SecretKey),
		"wrong": "[backups]\naws_access_key_id = someone\naws_secret_access_key = else-else\n",
	})
	r := dmv1.Repository{Provider: "velero.io/aws", Path: "restic/shop", Password: []byte(password),
		Config: map[string]string{
			"bucket": c.NewBucket(t, "restic"), "prefix": "velero", "s3Url": c.S3.Endpoint +
				"/", "region": c.S3.Region, "s3ForcePathStyle": "true",
			"profile": "backups", "credentialsFile": credentials,
		}}
	config := restic.Defaults()
	config.Program, config.CacheDirectory, config.MemoryLimit, config.UploadLimit, config.DownloadLimit = program,
		t.TempDir(), "300Mi", "50Mi", "40Mi"
	config.Connections, config.Compression = 3, "max"
	running := plugintest.Run(t, restic.Register())
	m := running.DataMoverV1(restic.Name, plugintest.WithConfig(config))

	checked, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.NoError(t, err)
	require.True(t, checked.Created)
	volume, target := t.TempDir(), t.TempDir()
	write(t, volume, map[string]string{"a/b": "content"})
	stored := backup(t, m, r, "k", volume)
	entries, err := os.ReadDir(filepath.Join(c.S3.Dir, r.Config["bucket"], "velero", "restic", "shop"))
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Subset(t, names, []string{"config", "data", "index", "keys", "snapshots"}, "where Velero has it")
	_, err = m.Restore(t.Context(), &dmv1.RestoreInput{Repository: r, SnapshotID: stored.SnapshotID,
		Volume: dmv1.Volume{Path: target}})
	require.NoError(t, err)
	require.Equal(t, "content", read(t, target, "a", "b"))
	_, err = m.Forget(t.Context(), &dmv1.ForgetInput{Repository: r, SnapshotIDs: []string{stored.SnapshotID}})
	require.NoError(t, err)
	_, err = m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
	require.NoError(t, err)

	called := read(t, notes)
	require.Positive(t, strings.Count(called, "called\n"))
	for _, secret := range []string{password, c.S3.SecretKey} {
		require.NotContains(t, called, secret, "neither in an argument nor in a variable")
		for _, line := range running.Logs() {
			require.NotContains(t, fmt.Sprint(line), secret)
		}
	}
	for _, setting := range []string{"--limit-upload=51200", "--limit-download=40960", "--compression=max",
		"s3.connections=3", "GOMEMLIMIT=314572800"} {
		require.Contains(t, called, setting)
	}

	wrong := r
	wrong.Config = map[string]string{}
	for key, value := range r.Config {
		wrong.Config[key] = value
	}
	wrong.Config["credentialsFile"] = filepath.Join(filepath.Dir(credentials), "wrong")
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: wrong, Create: true})
	require.ErrorContains(t, err, "the credentials were refused")
	wrong.Config["credentialsFile"], wrong.Config["bucket"] = credentials, "absent"
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: wrong, Create: true})
	require.Error(t, err)

	write(t, filepath.Join(c.S3.Dir, r.Config["bucket"], "velero", "restic", "blog"),
		map[string]string{"kopia.repository": "{}"})
	r.Path = "restic/blog"
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.ErrorIs(t, err, framework.ErrInvalid)
	require.ErrorContains(t, err, "is one of Kopia")
}

func TestCancelledCallLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r, volume := repository(t), t.TempDir()
	write(t, volume, map[string]string{"a": random(2 << 20)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := mover(t, func(c *restic.Config) { c.UploadLimit = "512Ki" })
	_, err := m.Backup(ctx, &dmv1.BackupInput{Repository: r, Key: "k", Volume: dmv1.Volume{Path: volume},
		Report: func(p dmv1.Progress) {
			if p.DoneFiles > 0 {
				cancel()
			}
		}})
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { // the plugin ends restic after the caller has its error
		_, err := mover(t, impatient).Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
		return err == nil
	}, longEnough, 100*time.Millisecond)
	require.Empty(t, snapshots(t, r))
}
