package location_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// uid is the uid in the velero-backup.json of these tests.
const uid = "9b0f3c52-7e0b-4f0e-9d0b-1f3f0a1c2d3e"

func artifactsOf(metadata string) store.Artifacts {
	return store.Artifacts{
		Metadata:     []byte(metadata),
		Log:          strings.NewReader("log"),
		Results:      strings.NewReader("results"),
		ResourceList: strings.NewReader("list"),
	}
}

func artifacts() store.Artifacts {
	return artifactsOf(`{"metadata":{"name":"b1","uid":"` + uid + `"}}`)
}

// pour writes to an archive until a write fails: far more than any fault of these tests permits, and then a little now
// and then, because the upload follows at its own pace.
func pour(w io.Writer, until func(written int)) error {
	noise := rand.New(rand.NewPCG(1, 2))
	block := make([]byte, 64<<10)
	for written := 0; written < 64<<20; written += len(block) {
		for i := range block {
			block[i] = byte(noise.Uint32())
		}
		if until != nil {
			until(written)
		}
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	for range int(waitFor / tick) {
		if _, err := w.Write(block[:1]); err != nil {
			return err
		}
		time.Sleep(tick)
	}
	return errors.New("no write has failed")
}

// objects lists the objects in a bucket that is a directory, without the internal files of the S3 server.
func objects(t *testing.T, bucket string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(bucket, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".sgwtmp" {
			return filepath.SkipDir
		}
		if !entry.IsDir() {
			found = append(found, strings.TrimPrefix(path, bucket+"/"))
		}
		return nil
	}))
	return found
}

func requireLine(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "\n")
}

func TestAcceptBackup_StorageFaults(t *testing.T) {
	t.Parallel()
	t.Run("wrong locations become Unavailable with a reason", wrongLocations)
	t.Run("an empty prefix is a valid location", emptyPrefix)
	t.Run("an upload to a wrong location leaves no objects", wrongUploads)
	t.Run("the S3 server stops during an upload", stoppedWhileStreaming)
	t.Run("the S3 server stops before the commit", stoppedAtCommit)
	t.Run("the disk is full", diskFull)
	t.Run("the plugin process dies during an upload", pluginDies)
	t.Run("a cancelled backup leaves no objects", cancelledBackup)
}

// faults returns locations that cannot work, with parts of the messages that the user gets.
func faults(t *testing.T, w *world) map[string]struct {
	spec velerov1.BackupStorageLocationSpec
	want []string
} {
	t.Helper()
	bucket := w.cluster.NewBucket(t, "faults")
	good := func() velerov1.BackupStorageLocationSpec { return w.s3(t, bucket) }
	changed := func(change func(*velerov1.BackupStorageLocationSpec)) velerov1.BackupStorageLocationSpec {
		spec := good()
		change(&spec)
		return spec
	}
	w.secret(t, "wrong-credentials", "[default]\naws_access_key_id="+w.cluster.S3.AccessKey+
		"\naws_secret_access_key=wrong\n")
	w.secret(t, "no-credentials", "hello")
	root := t.TempDir()
	return map[string]struct {
		spec velerov1.BackupStorageLocationSpec
		want []string
	}{
		"missing-bucket": {changed(func(s *velerov1.BackupStorageLocationSpec) { s.ObjectStorage.Bucket = "no-such-bucket" }),
			[]string{"ObjectStore(cleat.dev/s3)", `"no-such-bucket"`, w.cluster.S3.Endpoint, "create",
				"spec.objectStorage.bucket"}},
		"wrong-credentials": {changed(
			func(s *velerov1.BackupStorageLocationSpec) { s.Credential.Name = "wrong-credentials" },
		),
			[]string{"ObjectStore(cleat.dev/s3)", bucket, w.cluster.S3.Endpoint, "credentials were refused", "spec.credential"}},
		"not-credentials": {changed(func(s *velerov1.BackupStorageLocationSpec) { s.Credential.Name = "no-credentials" }),
			[]string{"ObjectStore(cleat.dev/s3)", `profile "default"`, "want an AWS ini file"}},
		"missing-secret": {changed(func(s *velerov1.BackupStorageLocationSpec) { s.Credential.Name = "missing" }),
			[]string{"spec.credential: there is no Secret " + w.namespace + "/missing"}},
		"nothing-there": {changed(func(s *velerov1.BackupStorageLocationSpec) { s.Config["s3Url"] = "http://127.0.0.1:1" }),
			[]string{"ObjectStore(cleat.dev/s3)", "nothing answers at http://127.0.0.1:1", "config.s3Url"}},
		"unknown-key": {changed(func(s *velerov1.BackupStorageLocationSpec) { s.Config["regoin"] = "x" }),
			[]string{"ObjectStore(cleat.dev/s3)", `unknown key "regoin"`, "want one of"}},
		"unknown-provider": {changed(func(s *velerov1.BackupStorageLocationSpec) { s.Provider = "tape" }),
			[]string{`unknown object store provider "velero.io/tape"`, "cleat.dev/s3"}},
		"two-cas": {changed(func(s *velerov1.BackupStorageLocationSpec) {
			s.ObjectStorage.CACert, s.ObjectStorage.CACertRef = []byte("x"), selector("x", "y")
		}), []string{"cannot specify both caCert and caCertRef"}},
		"missing-directory": {velerov1.BackupStorageLocationSpec{
			Provider: filestore.Name, Config: map[string]string{"path": root},
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "not-mounted"}},
		}, []string{"ObjectStore(cleat.dev/file)", "there is no directory " + root + "/not-mounted", "mount the volume"}},
		"missing-directory-of-a-process": {velerov1.BackupStorageLocationSpec{
			Provider: "example.io/sound", Config: map[string]string{"path": root},
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "not-mounted"}},
		}, []string{"ObjectStore(example.io/sound)", "there is no directory " + root + "/not-mounted"}},
	}
}

func wrongLocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "faults-wrong-locations")
	w.run(t, nil)
	for name, fault := range faults(t, w) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.location(t, name, fault.spec)
			l := w.awaitLocation(t, name, phase(unavailable))
			requireLine(t, l.Status.Message,
				append(fault.want, fmt.Sprintf("BackupStorageLocation %q is unavailable: ", name))...)
			require.NotContains(t, l.Status.Message, w.cluster.S3.SecretKey)
		})
	}
}

func emptyPrefix(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "faults-empty-prefix")
	w.run(t, nil)
	root := t.TempDir()
	builtIn, _ := files(t, filestore.Name, root)
	external, _ := files(t, "example.io/sound", root)
	for name, spec := range map[string]velerov1.BackupStorageLocationSpec{
		"s3": w.s3(t, w.cluster.NewBucket(t, "empty")), "file": builtIn, "process": external,
	} {
		l := w.location(t, name, spec)
		w.awaitLocation(t, name, phase(available))
		opened, err := w.opener.Open(t.Context(), l)
		require.NoError(t, err)
		names, _, err := opened.ListBackups(t.Context())
		require.NoError(t, err)
		require.Empty(t, names)
	}
}

func wrongUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "faults-wrong-uploads")
	for name, fault := range faults(t, w) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &velerov1.BackupStorageLocation{Spec: fault.spec}
			l.Namespace, l.Name = w.namespace, name
			err := backUp(t, w, l)
			requireLine(t, err.Error(), fault.want...)
		})
	}
}

// backUp uploads a small backup to a location and returns the first error.
func backUp(t *testing.T, w *world, l *velerov1.BackupStorageLocation) error {
	t.Helper()
	opened, err := w.opener.Open(t.Context(), l)
	if err != nil {
		return err
	}
	upload, err := opened.BeginBackup(t.Context(), "b1", "")
	if err != nil {
		return err
	}
	defer func() { _ = upload.Abort(t.Context(), nil, nil) }()
	if _, err := upload.Contents().Write(make([]byte, 1000)); err != nil {
		return err
	}
	return upload.Commit(t.Context(), artifacts())
}

// ownCluster starts a control plane whose S3 server the test may stop.
func ownCluster(t *testing.T) *controlplane.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs a control plane")
	}
	c, err := controlplane.Start(t.Context(), controlplane.Options{Log: t.Output()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	return c
}

func stoppedWhileStreaming(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ownCluster(t), "faults-stopped")
	bucket := w.cluster.NewBucket(t, "stopped")
	l := w.location(t, "s3", w.s3(t, bucket))
	opened, err := w.opener.Open(t.Context(), l)
	require.NoError(t, err)
	upload, err := opened.BeginBackup(t.Context(), "b1", "")
	require.NoError(t, err)
	err = pour(upload.Contents(), func(written int) {
		if written == 40<<20 { // after some parts have arrived
			require.NoError(t, w.cluster.Do(t.Context(), "kill", controlplane.S3Server))
		}
	})
	requireLine(t, err.Error(), "store velero/backups/b1/b1.tar.gz", bucket, w.cluster.S3.Endpoint, "check")

	aborted := upload.Abort(t.Context(), strings.NewReader("log"), []byte(`{}`))
	require.ErrorIs(t, aborted, store.ErrNotCleaned)
	requireLine(t, aborted.Error(), bucket, "nothing answers")

	require.NoError(t, w.cluster.Do(t.Context(), "start", controlplane.S3Server))
	require.Empty(t, objects(t, filepath.Join(w.cluster.S3.Dir, bucket)), "partial objects remain")
	requireBackupWorks(t, opened)
}

func stoppedAtCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ownCluster(t), "faults-stopped-at-commit")
	bucket := w.cluster.NewBucket(t, "stopped")
	dir := filepath.Join(w.cluster.S3.Dir, bucket)
	l := w.location(t, "s3", w.s3(t, bucket))
	opened, err := w.opener.Open(t.Context(), l)
	require.NoError(t, err)
	upload, err := opened.BeginBackup(t.Context(), "b1", "")
	require.NoError(t, err)
	_, err = upload.Contents().Write(make([]byte, 1000))
	require.NoError(t, err)
	after := artifacts()
	// velero-backup.json and the archive are stored before the server stops.
	after.ResourceList = lastRead{strings.NewReader(""), func() error {
		require.Contains(t, objects(t, dir), "velero/backups/b1/b1.tar.gz")
		return w.cluster.Do(t.Context(), "kill", controlplane.S3Server)
	}}
	err = upload.Commit(t.Context(), after)
	require.ErrorIs(t, err, store.ErrNotCleaned, "the caller must learn that objects remain")
	// the small files are stored at the same time: any may fail first
	requireLine(t, err.Error(), "store velero/backups/b1/b1-", bucket, "nothing answers")

	require.NoError(t, w.cluster.Do(t.Context(), "start", controlplane.S3Server))
	require.NoError(t, opened.RemovePartial(t.Context(), "b1", "another uid"))
	require.Contains(t, objects(t, dir), "velero/backups/b1/velero-backup.json",
		"a backup with another uid must not be removed")
	require.NoError(t, opened.RemovePartial(t.Context(), "b1", uid))
	require.Equal(t, []string{"velero/backups/b1/b1-logs.gz"}, objects(t, dir))
	requireBackupWorks(t, opened)
}

// lastRead is a reader that calls a function before its end.
type lastRead struct {
	io.ReadSeeker
	before func() error
}

func (r lastRead) Read(p []byte) (int, error) {
	n, err := r.ReadSeeker.Read(p)
	if err == io.EOF {
		err = cmp.Or(r.before(), err)
	}
	return n, err
}

// requireBackupWorks checks that a backup with the same name can be made in the location.
func requireBackupWorks(t *testing.T, opened *store.Store) {
	t.Helper()
	upload, err := opened.BeginBackup(t.Context(), "b1", "")
	require.NoError(t, err)
	content := bytes.Repeat([]byte("whole "), 1000)
	_, err = upload.Contents().Write(content)
	require.NoError(t, err)
	require.NoError(t, upload.Commit(t.Context(), artifacts()))
	body, err := opened.BackupContents(t.Context(), "b1")
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	require.Equal(t, content, got)
	require.NoError(t, opened.DeleteBackup(t.Context(), "b1"))
}

func diskFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "faults-disk-full")
	t.Run("of a plugin's process", func(t *testing.T) {
		t.Parallel()
		spec, dir := files(t, "example.io/full", t.TempDir())
		requireFull(t, w, w.location(t, "process", spec), dir)
	})
	t.Run("of the server", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=2m"); err != nil {
			t.Skipf("cannot mount a small file system; the other test has a full disk too: %v", err)
		}
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(root, 0)) })
		spec, dir := files(t, filestore.Name, root)
		opened := requireFull(t, w, w.location(t, "server", spec), dir)
		requireBackupWorks(t, opened)
	})
}

func requireFull(t *testing.T, w *world, l *velerov1.BackupStorageLocation, dir string) *store.Store {
	t.Helper()
	opened, err := w.opener.Open(t.Context(), l)
	require.NoError(t, err)
	upload, err := opened.BeginBackup(t.Context(), "b1", "")
	require.NoError(t, err)
	err = pour(upload.Contents(), nil)
	requireLine(t, err.Error(), "backups/b1/b1.tar.gz", l.Spec.ObjectStorage.Bucket, "the file system is full",
		"free or add space")
	require.NoError(t, upload.Abort(t.Context(), strings.NewReader("log"), nil))
	require.Equal(t, []string{"backups/b1/b1-logs.gz"}, objects(t, dir), "partial objects remain")
	return opened
}

func pluginDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "faults-plugin-dies")
	spec, dir := files(t, "example.io/dies", t.TempDir())
	opened, err := w.opener.Open(t.Context(), w.location(t, "dies", spec))
	require.NoError(t, err)
	upload, err := opened.BeginBackup(t.Context(), "b1", "")
	require.NoError(t, err)

	err = pour(upload.Contents(), nil)

	var died *calls.DiedError
	require.ErrorAs(t, err, &died)
	require.Equal(t, "example.io/dies", died.Plugin)
	requireLine(t, err.Error(), "backups/b1/b1.tar.gz", "example.io/dies", "PutObject", "exit status 7",
		"the tape drive is on fire")
	require.NoError(t, upload.Abort(t.Context(), strings.NewReader("log"), []byte(`{"status":{"phase":"Failed"}}`)))
	require.Equal(t, []string{"backups/b1/b1-logs.gz", "backups/b1/velero-backup.json"}, objects(t, dir),
		"partial objects remain")
}

func cancelledBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "faults-cancelled")
	bucket := w.cluster.NewBucket(t, "cancelled")
	fileSpec, fileDir := files(t, filestore.Name, t.TempDir())
	processSpec, processDir := files(t, "example.io/sound", t.TempDir())
	for name, test := range map[string]struct {
		spec velerov1.BackupStorageLocationSpec
		dir  string
	}{
		"s3": {w.s3(t, bucket), filepath.Join(w.cluster.S3.Dir, bucket)}, "file": {fileSpec, fileDir},
		"process": {processSpec, processDir},
	} {
		opened, err := w.opener.Open(t.Context(), w.location(t, name, test.spec))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		upload, err := opened.BeginBackup(ctx, "b1", "")
		require.NoError(t, err)
		err = pour(upload.Contents(), func(written int) {
			if written == 40<<20 {
				cancel()
			}
		})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, upload.Commit(ctx, artifacts()), context.Canceled)
		require.Eventually(t, func() bool { return len(objects(t, test.dir)) == 0 }, waitFor, tick,
			"partial objects remain in %s", name)
		requireBackupWorks(t, opened)
	}
}
