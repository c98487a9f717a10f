package install_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// marker is in a Secret of the workload, in its log line, and in no file of a sealed bucket.
const marker = "never-in-the-bucket"

// sealKey returns a pair of keys.
func sealKey(t *testing.T) (private, public string) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return identity.String(), identity.Recipient().String()
}

// serveDownloads starts a server with an address for downloads. The paths of its sockets are short.
func serveDownloads(s *site.Site, args ...string) *site.Server {
	s.T.Helper()
	address := site.FreeAddress(s.T)
	scratch, err := os.MkdirTemp("", "s")
	require.NoError(s.T, err)
	return s.Serve(append([]string{"--download-address", address, "--download-url", "http://" + address, "--scratch-dir",
		scratch, "--backup-sync-period", "1s"}, args...)...)
}

// addMarker adds a Secret to the workload.
func addMarker(s *site.Site) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Create(s.T.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: marker}, StringData: map[string]string{"password": marker},
	}))
}

// requireSealed requires that each object of a bucket is sealed, and that there are some.
func requireSealed(s *site.Site) {
	s.T.Helper()
	found := 0
	require.NoError(s.T, filepath.WalkDir(s.BucketDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".attrs") {
			return err
		}
		found++
		content, err := os.ReadFile(path)
		require.NoError(s.T, err)
		require.True(s.T, bytes.HasPrefix(content, []byte("age-encryption.org/v1\n")), path)
		require.NotContains(s.T, string(content), marker, path)
		return nil
	}))
	require.Greater(s.T, found, 8)
}

// TestAcceptTrust_Sealed backs up to a sealed location on a real S3 server, whose server is killed in the middle, and
// restores; it reads logs and ranges of the manifest, rotates the keys, and has another server find the backups.
func TestAcceptTrust_Sealed(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	s.Shop = s.Workload(5)
	addMarker(s)
	oldPrivate, oldPublic := sealKey(t)
	newPrivate, newPublic := sealKey(t)
	s.Seal(oldPublic, oldPrivate)
	server := serveDownloads(s)
	s.Available()
	hit := g.Arm(1, site.Before, site.Uploads("first"))
	s.BeginBackup("first")
	s.AwaitHit(hit)
	server.Kill()
	g.Disarm()
	// The next server runs the store in a process of its own.
	server = serveDownloads(s, "--config", site.ConfigFile(t, "plugins: {isolateBuiltIns: true}\n"))
	s.AwaitBackup("first", velerov1.BackupPhaseCompleted)
	hit = g.Arm(1, site.After, func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/second/velero-backup.json")
	})
	s.BeginBackup("second")
	s.AwaitHit(hit)
	server.Kill()
	g.Disarm()
	server = serveDownloads(s)
	s.AwaitBackup("second", velerov1.BackupPhaseCompleted)
	requireSealed(s)

	// Files come from the server, the manifest by ranges.
	require.Contains(t, s.Must("backup", "logs", "first"), "backup started")
	require.Contains(t, s.Must("backup", "describe", "first", "--details"), "Secret")
	require.Contains(t, s.Must("manifest", "ls", "first"), marker)
	whole, status := fetchManifest(s, "first", "")
	require.Equal(t, http.StatusOK, status)
	for asked, want := range map[string]string{
		"bytes=-100": whole[len(whole)-100:], "bytes=5-24": whole[5:25], "bytes=100-": whole[100:],
		"bytes=0-999999999": whole,
	} {
		part, status := fetchManifest(s, "first", asked)
		require.Equal(t, http.StatusPartialContent, status, asked)
		require.Equal(t, want, part, asked)
	}

	// What was restored is what was there.
	s.Must("restore", "create", "r", "--from-backup", "first", "--namespace-mappings", s.Shop+":"+s.Shop+"-copy", "--wait")
	var restored corev1.Secret
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Shop + "-copy", Name: marker}, &restored))
	require.Equal(t, marker, string(restored.Data["password"]))
	require.Contains(t, s.Must("restore", "logs", "r"), "restore started")
	requireSealed(s)

	// New objects are for the new key; the old key opens old ones as long as it is there.
	s.Seal(newPublic, newPrivate, oldPrivate)
	s.BeginBackup("third")
	s.AwaitBackup("third", velerov1.BackupPhaseCompleted)
	for _, name := range []string{"first", "third"} {
		require.Contains(t, s.Must("backup", "logs", name), "backup started")
	}
	s.Seal(newPublic, newPrivate)
	s.Eventually("the log of the first backup cannot be read", func(context.Context) (bool, error) {
		_, _, err := s.Run("backup", "logs", "first") // the server reads a Secret again after a second
		return err != nil, nil
	})
	server.AwaitLine("it is sealed for "+oldPublic, "there are the identities of "+newPublic)
	s.Seal(oldPublic, newPrivate)
	s.Eventually("the location says which key it lacks", func(ctx context.Context) (bool, error) {
		var location velerov1.BackupStorageLocation
		err := s.Client.Get(ctx, s.Key("default"), &location)
		return location.Status.Phase == velerov1.BackupStorageLocationPhaseUnavailable &&
			strings.Contains(location.Status.Message, "it is sealed for "+oldPublic), err
	})
	s.Seal(newPublic, newPrivate, oldPrivate)
	s.Available()
	s.Eventually("the log of the first backup can be read again", func(context.Context) (bool, error) {
		_, _, err := s.Run("backup", "logs", "first")
		return err == nil, nil
	})
	require.NotContains(t, server.Log.String(), "AGE-SECRET-KEY")

	// Another installation with the keys finds the backups, and a swapped one is found out.
	require.NoError(t, os.CopyFS(filepath.Join(s.BucketDir, "backups", "swapped"),
		os.DirFS(filepath.Join(s.BucketDir, "backups", "first"))))
	other := site.NewIn(t, s.Cluster, "cleat.dev/s3")
	other.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.ObjectStorage.Bucket = filepath.Base(s.BucketDir)
		l.Spec.AccessMode = velerov1.BackupStorageLocationAccessModeReadOnly
	})
	other.Seal(newPublic, newPrivate, oldPrivate)
	reader := serveDownloads(other)
	other.AwaitNames("first", "second", "third")
	reader.AwaitLine("swapped", `it was sealed as \"backups/first/velero-backup.json\"`)
	reader.Kill()
	require.NoError(t, os.RemoveAll(filepath.Join(s.BucketDir, "backups", "swapped")))

	request := s.RequestDeletion("second")
	s.Eventually("the second backup is deleted", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(request), request)
		if len(request.Status.Errors) > 0 {
			require.Fail(t, "the deletion has failed", "%v", request.Status.Errors)
		}
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	require.Equal(t, []string{"first", "third"}, s.Files("backups"))
	s.Must("backup", "unseal", "third", "--to", filepath.Join(t.TempDir(), "plain"), "--timeout", "5m")
}

// fetchManifest reads the manifest of a backup, or a range of it.
func fetchManifest(s *site.Site, backup, asked string) (content string, status int) {
	s.T.Helper()
	request := &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: backup + "-",
			Annotations: map[string]string{velerov1.FileAnnotation: "manifest.json.gz"}},
		Spec: velerov1.DownloadRequestSpec{Target: velerov1.DownloadTarget{
			Kind: velerov1.DownloadTargetKindBackupResourceList, Name: backup}},
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), request))
	s.Eventually("there is a URL", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(request.Name), request)
		return request.Status.DownloadURL != "", err
	})
	get, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, request.Status.DownloadURL, nil)
	require.NoError(s.T, err)
	if asked != "" {
		get.Header.Set("Range", asked)
	}
	response, err := new(http.Client).Do(get)
	require.NoError(s.T, err)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	require.NoError(s.T, err)
	return string(all), response.StatusCode
}

// TestAcceptTrust_UnsealedForVelero has the real Velero restore a backup that was sealed and unsealed.
func TestAcceptTrust_UnsealedForVelero(t *testing.T) {
	t.Parallel()
	s, v := newVeleroSite(t)
	stopped := veleroDeployment(s, "velero/velero:"+velero.Version, "server") // Velero reads it before a restore
	stopped.Spec.Replicas = new(int32)
	require.NoError(t, s.Client.Create(t.Context(), stopped))
	s.Shop = s.Workload(3)
	addMarker(s)
	private, public := sealKey(t)
	plain := func(bucket string) func(*velerov1.BackupStorageLocation) {
		return func(l *velerov1.BackupStorageLocation) {
			l.Spec.Provider, l.Spec.ObjectStorage.Bucket = "aws", bucket
			l.Status.LastSyncedTime = nil // Velero looks at once when it starts, and then each minute
			for _, key := range []string{"store", "secret", "recipients"} {
				delete(l.Spec.Config, key)
			}
		}
	}
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) { l.Spec.Provider = "cleat.dev/s3" })
	s.Seal(public, private)
	server := serveDownloads(s)
	s.Available()
	s.BeginBackup("b")
	s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	requireSealed(s)
	dir := t.TempDir()
	out := s.Must("backup", "unseal", "b", "--to", dir, "--timeout", "5m")
	require.Contains(t, out, "Backup b has been unsealed to "+filepath.Join(dir, "backups", "b"))
	_, errs, err := s.Run("backup", "unseal", "b", "--to", dir, "--timeout", "5m")
	require.Error(t, err)
	require.Contains(t, errs, "exists; remove it, or name another directory with --to")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing but backups/")

	s.BeginBackup("later")
	s.AwaitBackup("later", velerov1.BackupPhaseCompleted)
	whole := t.TempDir()
	for range 2 {
		out += s.Must("backup", "unseal", "--location", "default", "--to", whole, "--timeout", "5m")
	}
	require.Contains(t, out, "2 backups of location default have been unsealed, 0 were in "+whole+" already")
	require.Contains(t, out, "0 backups of location default have been unsealed, 2 were in "+whole+" already")
	for _, name := range []string{"b", "later"} {
		require.FileExists(t, filepath.Join(whole, "backups", name, "velero-backup.json"))
	}
	_, errs, err = s.Run("backup", "unseal", "b", "--location", "default", "--to", whole)
	require.Error(t, err)
	require.Contains(t, errs, "want either the name of a backup or a location")
	require.NoError(t, s.Client.Delete(t.Context(), s.Named("later")))
	s.AwaitGone(new(velerov1.Backup), "later")
	server.Kill()

	bucket := s.Cluster.NewBucket(t, "plain")
	require.NoError(t, os.CopyFS(filepath.Join(s.Cluster.S3.Dir, bucket), os.DirFS(dir)))
	require.NoError(t, s.Client.Delete(t.Context(), s.Named("b")))
	s.AwaitGone(new(velerov1.Backup), "b")
	// Velero passes over a backup that is sealed.
	s.ChangeLocation(plain(filepath.Base(s.BucketDir)))
	sealed := s.Files("backups/b")
	theirs := serveVelero(s, v)
	s.Eventually("Velero says that it cannot read the backup", func(context.Context) (bool, error) {
		return strings.Contains(theirs.Log(), "Error getting backup metadata from backup store"), nil
	})
	require.Empty(t, s.BackupNames())
	require.Equal(t, sealed, s.Files("backups/b"))
	theirs.Kill()
	s.ChangeLocation(plain(bucket))
	serveVelero(s, v)
	s.AwaitNames("b")
	s.Available() // Velero refuses a restore otherwise
	_, err = v.Run(t.Context(), "restore", "create", "r", "--from-backup", "b", "--namespace-mappings",
		fmt.Sprintf("%s:%s-copy", s.Shop, s.Shop), "--wait")
	require.NoError(t, err)
	var r velerov1.Restore
	require.NoError(t, s.Client.Get(t.Context(), s.Key("r"), &r))
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, "%s %v", r.Status.FailureReason,
		r.Status.ValidationErrors)
	var restored corev1.Secret
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Shop + "-copy", Name: marker}, &restored))
	require.Equal(t, marker, string(restored.Data["password"]))
}
