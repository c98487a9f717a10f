package main_test

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
)

// TestAcceptBackup_Locations shows what a server does with locations that are read-only, whose credentials change, of
// which there are several, and of which one is the default.
func TestAcceptBackup_Locations(t *testing.T) {
	t.Parallel()
	t.Run("read-only", readOnlyLocation)
	t.Run("the credential expires", expiredCredential)
	t.Run("several providers and defaults", severalLocations)
}

func readOnlyLocation(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	s.serve(often...)
	s.available()
	s.shop = s.workload(5)
	s.wholeBackup("")
	s.must("backup", "create", "preview", "--include-namespaces", s.shop, "--dry-run")
	s.accessMode(velerov1.BackupStorageLocationAccessModeReadOnly)
	const refused = "backup storage location default is currently in read-only mode"

	out, errs, err := s.run("backup", "create", "refused", "--include-namespaces", s.shop, "--wait")
	require.Error(t, err)
	require.Contains(t, out+errs, "FailedValidation")
	require.Contains(t, strings.Join(s.backup("refused").Status.ValidationErrors, "\n"), refused)
	out, errs, err = s.run("backup", "create", "refused-too", "--include-namespaces", s.shop, "--dry-run")
	require.Error(t, err)
	require.Contains(t, out+errs, refused)
	request := s.requestDeletion("whole")
	s.eventually("the deletion is refused", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed, err
	})
	require.Contains(t, request.Status.Errors[0], refused)
	require.Equal(t, velerov1.BackupPhaseCompleted, s.backup("whole").Status.Phase)
	require.NoError(t, s.client.Delete(t.Context(), s.named("preview-dry-run")))
	s.awaitGone(new(velerov1.Backup), "preview-dry-run")
	require.Equal(t, []string{"preview-dry-run", "whole"}, s.files("backups"), "what a dry run has stored stays")

	s.copies("whole", nil, "copy")
	s.awaitBackup("copy", velerov1.BackupPhaseCompleted)
	s.must("restore", "create", "trial", "--from-backup", "copy", "--namespace-mappings", s.shop+":"+s.shop+"-trial",
		"--dry-run")
	s.beginRestore("back")
	s.checkRestore("back")
	require.NoError(t, s.client.Delete(t.Context(),
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "back"}}))
	s.awaitGone(new(velerov1.Restore), "back")
	require.NotEmpty(t, s.files("restores/back"), "what a restore has stored stays")
}

// setCredential writes the keys of the S3 server into a Secret, with another secret key than the right one if it is
// wrong.
func (s *site) setCredential(name string, wrong bool) {
	s.t.Helper()
	key := s.cluster.S3.SecretKey
	if wrong {
		key = "expired"
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Data: map[string][]byte{"mine": fmt.Appendf(nil, "[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n",
			s.cluster.S3.AccessKey, key)},
	}
	if err := s.client.Create(s.t.Context(), secret); err != nil {
		require.NoError(s.t, s.client.Update(s.t.Context(), secret))
	}
}

// awaitLocation waits until a location is in a phase.
func (s *site) awaitLocation(
	name string, phase velerov1.BackupStorageLocationPhase,
) (location velerov1.BackupStorageLocation) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("location %s is %s", name, phase), func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &location)
		return location.Status.Phase == phase, err
	})
	return location
}

// credentialFiles returns the contents of the files with credentials of a location, and requires that others cannot
// read them. The server may remove some meanwhile.
func (s *site) credentialFiles(scratch, location string) (contents []string) {
	s.t.Helper()
	visit := func(path string, entry fs.DirEntry) error {
		if entry.IsDir() || filepath.Base(filepath.Dir(path)) != location {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		require.Equal(s.t, os.FileMode(0o640), info.Mode().Perm(), path)
		content, err := os.ReadFile(path)
		if err == nil {
			contents = append(contents, string(content))
		}
		return err
	}
	require.NoError(s.t, filepath.WalkDir(scratch, func(path string, entry fs.DirEntry, err error) error {
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
	s := newSite(t, "cleat.dev/s3")
	var second velerov1.BackupStorageLocation
	require.NoError(t, s.client.Get(t.Context(), s.key("default"), &second))
	second.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: "second"}
	second.Spec.Default = false
	second.Spec.Credential = &velerov1.SecretKeySelector{Name: "second-credentials", Key: "mine"}
	second.Spec.ObjectStorage = &velerov1.ObjectStorageLocation{Bucket: s.cluster.NewBucket(t, "second"),
		Prefix: "in/here"}
	second.Spec.ValidationFrequency = &metav1.Duration{Duration: time.Second}
	s.bucketDir = filepath.Join(s.cluster.S3.Dir, second.Spec.ObjectStorage.Bucket, "in", "here")
	s.setCredential("second-credentials", true)
	require.NoError(t, s.client.Create(t.Context(), &second))
	scratch := t.TempDir()
	s.serve(append(often, "--scratch-dir", scratch)...)
	s.available()
	require.Contains(t, s.awaitLocation("second", velerov1.BackupStorageLocationPhaseUnavailable).Status.Message,
		"credentials were refused")

	s.setCredential("second-credentials", false)
	s.awaitLocation("second", velerov1.BackupStorageLocationPhaseAvailable)
	s.shop = s.workload(2)
	s.must("backup", "create", "whole", "--include-namespaces", s.shop, "--storage-location", "second", "--wait")
	require.Equal(t, []string{"whole"}, s.files("backups"))
	require.Contains(t, strings.Join(s.credentialFiles(scratch, "second"), "\n"), s.cluster.S3.SecretKey)

	s.setCredential("second-credentials", true)
	s.awaitLocation("second", velerov1.BackupStorageLocationPhaseUnavailable)
	s.expire("whole")
	s.copies("whole", nil, "copy")
	s.must("backup", "create", "elsewhere", "--include-namespaces", s.shop, "--wait")
	require.Equal(t, []string{"elsewhere", "whole"}, s.backupNames(), "an expired credential stops this location only")
	require.Empty(t, s.backup("whole").Labels["velero.io/gc-failure"])

	s.setCredential("second-credentials", false)
	s.awaitNames("copy", "elsewhere")
	require.Equal(t, "second", s.backup("copy").Spec.StorageLocation)
	require.Equal(t, "second", s.backup("copy").Labels["velero.io/storage-location"])

	require.NoError(t, s.client.Delete(t.Context(), &second))
	s.eventually("the credentials are removed", func(context.Context) (bool, error) {
		return len(s.credentialFiles(scratch, "second")) == 0, nil
	})
	require.NotEmpty(t, s.credentialFiles(scratch, "default"))
	require.Equal(t, []string{"copy", "elsewhere"}, s.backupNames(), "without its location, a backup stays")
}

func severalLocations(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	root := t.TempDir()
	add := func(name string, isDefault bool) string {
		require.NoError(t, os.Mkdir(filepath.Join(root, name), 0o755))
		require.NoError(t, s.client.Create(t.Context(), &velerov1.BackupStorageLocation{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
			Spec: velerov1.BackupStorageLocationSpec{
				Provider: "cleat.dev/file", Config: map[string]string{"path": root}, Default: isDefault,
				StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: name}},
			},
		}))
		return filepath.Join(root, name)
	}
	add("files", false)
	s.serve(append(often, "--default-backup-storage-location", "files")...)
	s.available()
	s.awaitLocation("files", velerov1.BackupStorageLocationPhaseAvailable)
	s.shop = s.workload(1)
	in := func(backup string) string { return s.backup(backup).Spec.StorageLocation }
	s.must("backup", "create", "one", "--include-namespaces", s.shop, "--wait")
	require.Equal(t, "default", in("one"), "the spec of a location comes before the flag")
	s.must("backup", "create", "two", "--include-namespaces", s.shop, "--storage-location", "files", "--wait")
	require.Equal(t, "files", in("two"))

	time.Sleep(1100 * time.Millisecond) // creation times have whole seconds
	dir := add("zz-newest", true)
	s.awaitLocation("zz-newest", velerov1.BackupStorageLocationPhaseAvailable)
	s.must("backup", "create", "three", "--include-namespaces", s.shop, "--wait")
	require.Equal(t, "zz-newest", in("three"), "the newest of several defaults")
	require.FileExists(t, filepath.Join(dir, "backups", "three", "velero-backup.json"))
	s.eventually("only the newest is marked", func(ctx context.Context) (bool, error) {
		var old velerov1.BackupStorageLocation
		err := s.client.Get(ctx, s.key("default"), &old)
		return !old.Spec.Default, err
	})
	s.eventually("each location is synchronised", func(ctx context.Context) (bool, error) {
		var list velerov1.BackupStorageLocationList
		err := s.client.List(ctx, &list, client.InNamespace(s.namespace))
		for i := range list.Items {
			if list.Items[i].Status.LastSyncedTime == nil {
				return false, err
			}
		}
		return len(list.Items) == 3, err
	})
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "backups")))
	s.awaitNames("one", "two")
}
