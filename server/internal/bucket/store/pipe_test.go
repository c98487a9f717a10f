package store_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// interrupted is an object store that is asked again after its first upload of an archive has failed.
type interrupted struct {
	*memory
	after int64 // bytes; -1 for the whole archive
}

func (s interrupted) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	if again, ok := body.(io.Seeker); ok && strings.HasSuffix(key, ".tar.gz") {
		var err error
		if s.after < 0 {
			_, err = io.Copy(io.Discard, body)
		} else {
			_, err = io.CopyN(io.Discard, body, s.after)
		}
		if err != nil {
			return err
		}
		if _, err := again.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return s.memory.PutObject(ctx, bucket, key, body)
}

func TestArchiveCanBeUploadedAgain(t *testing.T) {
	t.Parallel()
	for _, after := range []int64{0, 1, 100 << 10, -1} {
		objects := newMemory()
		upload, err := store.New(interrupted{objects, after}, "bucket", "").BeginBackup(t.Context(), "b1", t.TempDir())
		require.NoError(t, err)
		for i := range 10 {
			_, err = upload.Contents().Write(bytes.Repeat([]byte{byte(i)}, 32<<10))
			require.NoError(t, err)
		}
		require.NoError(t, upload.Commit(t.Context(), artifacts()))
		requireOrder(t, backupKeys(""), objects.puts())
		content := objects.content("backups/b1/b1.tar.gz")
		require.Len(t, content, 10*32<<10)
		for i := range 10 {
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, 32<<10), []byte(content[i*32<<10:(i+1)*32<<10]))
		}
	}
}

// A second upload of the archive is not taken for complete because the first one was read to its end.
func TestSecondUploadMustReadTheWholeArchive(t *testing.T) {
	t.Parallel()
	objects := rewinding{newMemory()}
	upload, err := store.New(objects, "bucket", "").BeginBackup(t.Context(), "b1", "")
	require.NoError(t, err)
	_, err = io.WriteString(upload.Contents(), "archive")
	require.NoError(t, err)
	require.ErrorContains(t, upload.Commit(t.Context(), artifacts()), "before it had read the whole archive")
}

// rewinding reads each object to its end, begins again, and reports success.
type rewinding struct{ *memory }

func (s rewinding) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	err := s.memory.PutObject(ctx, bucket, key, body)
	if again, ok := body.(io.Seeker); ok && err == nil {
		_, err = again.Seek(0, io.SeekStart)
	}
	return err
}

// stuck takes no archive until it is released.
type stuck struct {
	*memory
	release chan struct{}
}

func (s stuck) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	if strings.HasSuffix(key, ".tar.gz") {
		<-s.release
	}
	return s.memory.PutObject(ctx, bucket, key, body)
}

func TestWriterDoesNotWaitForTheObjectStore(t *testing.T) {
	t.Parallel()
	objects := stuck{newMemory(), make(chan struct{})}
	upload, err := store.New(objects, "bucket", "").BeginBackup(t.Context(), "b1", t.TempDir())
	require.NoError(t, err)
	for range 100 {
		_, err = upload.Contents().Write(make([]byte, 64<<10))
		require.NoError(t, err)
	}
	close(objects.release)
	require.NoError(t, upload.Commit(t.Context(), artifacts()))
	require.Len(t, objects.content("backups/b1/b1.tar.gz"), 100*64<<10)
}

func TestTemporaryFileOfTheArchiveDoesNotRemain(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	for name, end := range map[string]func(*store.Upload) error{
		"commit":          func(u *store.Upload) error { return u.Commit(t.Context(), artifacts()) },
		"a failed commit": func(u *store.Upload) error { _ = u.Commit(t.Context(), store.Artifacts{}); return nil },
		"abort":           func(u *store.Upload) error { return u.Abort(t.Context(), nil, nil) },
		"leave":           func(u *store.Upload) error { u.Leave(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			upload, err := store.New(newMemory(), "bucket", "").BeginBackup(t.Context(), "b1", dir)
			require.NoError(t, err)
			_, err = io.WriteString(upload.Contents(), "archive")
			require.NoError(t, err)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "a killed process would leave it")
			require.Len(t, openFiles(t, dir), 1)
			require.NoError(t, end(upload))
			require.Empty(t, openFiles(t, dir))
			_, err = io.WriteString(upload.Contents(), "more")
			require.Error(t, err)
		})
	}
}

// openFiles returns the files below dir that this process has open.
func openFiles(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	var open []string
	for _, link := range links {
		if file, err := os.Readlink(link); err == nil && strings.HasPrefix(file, dir) {
			open = append(open, file)
		}
	}
	return open
}

func TestDiskOfTheArchiveFails(t *testing.T) {
	t.Parallel()
	objects := newMemory()
	t.Run("it has no directory", func(t *testing.T) {
		t.Parallel()
		_, err := store.New(objects, "bucket", "").BeginBackup(t.Context(), "b1", filepath.Join(t.TempDir(), "none"))
		require.ErrorContains(t, err, "see --scratch-dir")
	})
	t.Run("it is full", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
			t.Skipf("cannot mount a small file system: %v", err)
		}
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
		upload, err := store.New(objects, "bucket", "").BeginBackup(t.Context(), "b1", dir)
		require.NoError(t, err)
		err = nil
		for err == nil {
			_, err = upload.Contents().Write(make([]byte, 64<<10))
		}
		require.ErrorIs(t, err, spool.ErrFull)
		require.ErrorContains(t, err, "the disk has to have space for the archives of all backups in progress")
		require.ErrorIs(t, upload.Commit(t.Context(), artifacts()), spool.ErrFull)
		require.Empty(t, objects.keys("bucket"))
	})
}
