package backups_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptBackup_Locations shows the behavior of a server with read-only locations, locations whose credentials
// change, several locations, and a default one.
func TestAcceptBackup_Locations(t *testing.T) {
	t.Parallel()
	t.Run("read-only", readOnlyLocation)
	t.Run("the credential expires", expiredCredential)
	t.Run("several providers and defaults", severalLocations)
}

func readOnlyLocation(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Serve(site.Often...)
	s.Available()
	s.Shop = s.Workload(5)
	s.WholeBackup("")
	s.Must("backup", "create", "preview", "--include-namespaces", s.Shop, "--dry-run")
	accessMode(s, velerov1.BackupStorageLocationAccessModeReadOnly)
	const refused = "backup storage location default is currently in read-only mode"

	out, errs, err := s.Run("backup", "create", "refused", "--include-namespaces", s.Shop, "--wait")
	require.Error(t, err)
	require.Contains(t, out+errs, "FailedValidation")
	require.Contains(t, strings.Join(s.Backup("refused").Status.ValidationErrors, "\n"), refused)
	out, errs, err = s.Run("backup", "create", "refused-too", "--include-namespaces", s.Shop, "--dry-run")
	require.Error(t, err)
	require.Contains(t, out+errs, refused)
	request := s.RequestDeletion("whole")
	s.Eventually("the deletion is refused", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed, err
	})
	require.Contains(t, request.Status.Errors[0], refused)
	require.Equal(t, velerov1.BackupPhaseCompleted, s.Backup("whole").Status.Phase)
	require.NoError(t, s.Client.Delete(t.Context(), s.Named("preview-dry-run")))
	s.AwaitGone(new(velerov1.Backup), "preview-dry-run")
	require.Equal(t, []string{"preview-dry-run", "whole"}, s.Files("backups"), "what a dry run has stored stays")

	s.Copies("whole", nil, "copy")
	s.AwaitBackup("copy", velerov1.BackupPhaseCompleted)
	s.Must("restore", "create", "trial", "--from-backup", "copy", "--namespace-mappings", s.Shop+":"+s.Shop+"-trial",
		"--dry-run")
	s.BeginRestore("back")
	s.CheckRestore("back")
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "back"}}))
	s.AwaitGone(new(velerov1.Restore), "back")
	require.NotEmpty(t, s.Files("restores/back"), "what a restore has stored stays")
}

// setCredential writes the keys of the S3 server into a Secret, with an invalid secret key if wrong is set.
func setCredential(s *site.Site, name string, wrong bool) {
	s.T.Helper()
	key := s.Cluster.S3.SecretKey
	if wrong {
		key = "expired"
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Data: map[string][]byte{"mine": fmt.Appendf(nil, "[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n",
			s.Cluster.S3.AccessKey, key)},
	}
	if err := s.Client.Create(s.T.Context(), secret); err != nil {
		require.NoError(s.T, s.Client.Update(s.T.Context(), secret))
	}
}

// awaitLocation waits until a location is in a phase.
func awaitLocation(s *site.Site,
	name string, phase velerov1.BackupStorageLocationPhase,
) (location velerov1.BackupStorageLocation) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("location %s is %s", name, phase), func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(name), &location)
		return location.Status.Phase == phase, err
	})
	return location
}

// credentialFiles returns the contents of the files with credentials of a location, and requires that only their owner
// can read them. The server may remove some meanwhile.
func credentialFiles(s *site.Site, scratch, location string) (contents []string) {
	s.T.Helper()
	visit := func(path string, entry fs.DirEntry) error {
		if entry.IsDir() || filepath.Base(filepath.Dir(path)) != location {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		require.Equal(s.T, os.FileMode(0o640), info.Mode().Perm(), path)
		content, err := os.ReadFile(path)
		if err == nil {
			contents = append(contents, string(content))
		}
		return err
	}
	require.NoError(s.T, filepath.WalkDir(scratch, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = visit(path, entry)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}))
	return contents
}

func expiredCredential(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	var second velerov1.BackupStorageLocation
	require.NoError(t, s.Client.Get(t.Context(), s.Key("default"), &second))
	second.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: "second"}
	second.Spec.Default = false
	second.Spec.Credential = &velerov1.SecretKeySelector{Name: "second-credentials", Key: "mine"}
	second.Spec.ObjectStorage = &velerov1.ObjectStorageLocation{Bucket: s.Cluster.NewBucket(t, "second"),
		Prefix: "in/here"}
	second.Spec.ValidationFrequency = &metav1.Duration{Duration: time.Second}
	s.BucketDir = filepath.Join(s.Cluster.S3.Dir, second.Spec.ObjectStorage.Bucket, "in", "here")
	setCredential(s, "second-credentials", true)
	require.NoError(t, s.Client.Create(t.Context(), &second))
	scratch := t.TempDir()
	s.Serve(append(site.Often, "--scratch-dir", scratch)...)
	s.Available()
	require.Contains(t, awaitLocation(s, "second", velerov1.BackupStorageLocationPhaseUnavailable).Status.Message,
		"credentials were refused")

	setCredential(s, "second-credentials", false)
	awaitLocation(s, "second", velerov1.BackupStorageLocationPhaseAvailable)
	s.Shop = s.Workload(2)
	s.Must("backup", "create", "whole", "--include-namespaces", s.Shop, "--storage-location", "second", "--wait")
	require.Equal(t, []string{"whole"}, s.Files("backups"))
	require.Contains(t, strings.Join(credentialFiles(s, scratch, "second"), "\n"), s.Cluster.S3.SecretKey)

	setCredential(s, "second-credentials", true)
	awaitLocation(s, "second", velerov1.BackupStorageLocationPhaseUnavailable)
	s.Expire("whole")
	s.Copies("whole", nil, "copy")
	s.Must("backup", "create", "elsewhere", "--include-namespaces", s.Shop, "--wait")
	require.Equal(t, []string{"elsewhere", "whole"}, s.BackupNames(), "an expired credential stops this location only")
	require.Empty(t, s.Backup("whole").Labels["velero.io/gc-failure"])

	setCredential(s, "second-credentials", false)
	s.AwaitNames("copy", "elsewhere")
	require.Equal(t, "second", s.Backup("copy").Spec.StorageLocation)
	require.Equal(t, "second", s.Backup("copy").Labels["velero.io/storage-location"])

	require.NoError(t, s.Client.Delete(t.Context(), &second))
	s.Eventually("the credentials are removed", func(context.Context) (bool, error) {
		return len(credentialFiles(s, scratch, "second")) == 0, nil
	})
	require.NotEmpty(t, credentialFiles(s, scratch, "default"))
	require.Equal(t, []string{"copy", "elsewhere"}, s.BackupNames(), "without its location, a backup stays")
}

func severalLocations(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	root := t.TempDir()
	add := func(name string, isDefault bool) string {
		require.NoError(t, os.Mkdir(filepath.Join(root, name), 0o755))
		require.NoError(t, s.Client.Create(t.Context(), &velerov1.BackupStorageLocation{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
			Spec: velerov1.BackupStorageLocationSpec{
				Provider: "cleat.dev/file", Config: map[string]string{"path": root}, Default: isDefault,
				StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: name}},
			},
		}))
		return filepath.Join(root, name)
	}
	add("files", false)
	s.Serve(append(site.Often, "--default-backup-storage-location", "files")...)
	s.Available()
	awaitLocation(s, "files", velerov1.BackupStorageLocationPhaseAvailable)
	s.Shop = s.Workload(1)
	in := func(backup string) string { return s.Backup(backup).Spec.StorageLocation }
	s.Must("backup", "create", "one", "--include-namespaces", s.Shop, "--wait")
	require.Equal(t, "default", in("one"), "the spec of a location comes before the flag")
	s.Must("backup", "create", "two", "--include-namespaces", s.Shop, "--storage-location", "files", "--wait")
	require.Equal(t, "files", in("two"))

	time.Sleep(1100 * time.Millisecond) // creation times have whole seconds
	dir := add("zz-newest", true)
	awaitLocation(s, "zz-newest", velerov1.BackupStorageLocationPhaseAvailable)
	s.Must("backup", "create", "three", "--include-namespaces", s.Shop, "--wait")
	require.Equal(t, "zz-newest", in("three"), "the newest of several defaults")
	require.FileExists(t, filepath.Join(dir, "backups", "three", "velero-backup.json"))
	s.Eventually("only the newest is marked", func(ctx context.Context) (bool, error) {
		var old velerov1.BackupStorageLocation
		err := s.Client.Get(ctx, s.Key("default"), &old)
		return !old.Spec.Default, err
	})
	s.Eventually("each location is synchronised", func(ctx context.Context) (bool, error) {
		var list velerov1.BackupStorageLocationList
		err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace))
		for i := range list.Items {
			if list.Items[i].Status.LastSyncedTime == nil {
				return false, err
			}
		}
		return len(list.Items) == 3, err
	})
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "backups")))
	s.AwaitNames("one", "two")
}
