package nodeagent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// csiDeletions deletes backups whose data was moved: while their repository is unavailable, after their data was
// removed, by a server that is killed, and in a cluster that has them from the bucket only. The data of other backups
// stays, and is restored.
func csiDeletions(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t, 1)
	v.useRestic()
	v.claim("files", corev1.PersistentVolumeFilesystem)
	require.NoError(t, os.WriteFile(filepath.Join(v.dir(v.shop, "files"), "data"), []byte("before"), 0o600))
	v.agents()
	server := v.serve()
	names := []string{"away", "forgotten", "killed", "far"}
	for _, name := range names {
		v.create(v.moving(name))
	}
	for _, name := range names {
		b := v.moving(name)
		text := v.ended(b, func() string { return string(b.Status.Phase) },
			filepath.Join("backups", name, name+"-results.gz"))
		require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, text)
	}
	require.Len(t, v.stored(), 4)

	// The repository cannot be opened.
	repository := filepath.Join(v.store, "restic", v.shop)
	keys := filepath.Join(repository, "keys")
	require.NoError(t, os.Rename(keys, repository+"-keys"))
	request := v.requestDeletion("away")
	v.eventually("the deletion has failed", func() (bool, error) {
		err := v.client.Get(t.Context(), client.ObjectKeyFromObject(request), request)
		return request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed, err
	})
	why := strings.Join(request.Status.Errors, "\n")
	require.Contains(t, why, "from the repository of namespace "+v.shop+": ")
	require.Contains(t, why, "the password is wrong")
	require.Contains(t, why, "the files of the backup were kept")
	require.FileExists(t, filepath.Join(v.store, "backups", "away", "away.tar.gz"))
	require.NoError(t, os.Rename(repository+"-keys", keys))
	v.requestDeletion("away")
	v.deleted("away")
	require.Len(t, v.stored(), 3)

	// A deletion that was killed after the removal of the data is repeated.
	out, err := v.restic(repository, "forget", v.movement("forgotten").SnapshotHandle)
	require.NoError(t, err, out)
	require.Len(t, v.stored(), 2)
	v.requestDeletion("forgotten")
	v.deleted("forgotten")

	// The bucket has no record of the moved data, and the server is killed.
	require.NoError(t, os.Remove(filepath.Join(v.store, "backups", "killed", "killed-volumeinfo.json.gz")))
	v.requestDeletion("killed")
	v.eventually("data is removed", func() (bool, error) {
		return strings.Count(server.log.String(), "removed snapshots from a repository") == 3, nil
	})
	server.kill()
	v.serve()
	v.deleted("killed")
	far := v.movement("far")
	require.Equal(t, []string{far.SnapshotHandle}, v.stored())

	r := &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Name: "r2"}, Spec: velerov1.RestoreSpec{BackupName: "far",
			NamespaceMapping: map[string]string{v.shop: v.shop + "-copy"}},
	}
	v.create(r)
	text := v.ended(r, func() string { return string(r.Status.Phase) }, "restores/r2/restore-r2-results.gz")
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	data, err := os.ReadFile(filepath.Join(v.dir(v.shop+"-copy", "files"), "data"))
	require.NoError(t, err)
	require.Equal(t, "before", string(data))

	// Another cluster has the backup from the bucket, and no DataUploads.
	other := newVolumeSite(t, 0)
	other.useRestic()
	other.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "velero-repo-credentials"}, Data: v.password().Data})
	var location velerov1.BackupStorageLocation
	require.NoError(t, other.client.Get(t.Context(), client.ObjectKey{Namespace: other.namespace, Name: "default"},
		&location))
	other.change(&location, func() { location.Spec.Config["path"] = filepath.Dir(v.store) })
	other.serve("--backup-sync-period", "1s", "--default-backup-storage-location", "default")
	copied := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: other.namespace, Name: "far"}}
	other.eventually("the backup is copied", func() (bool, error) {
		return true, other.client.Get(t.Context(), client.ObjectKeyFromObject(copied), copied)
	})
	var uploads velerov2alpha1.DataUploadList
	require.NoError(t, other.client.List(t.Context(), &uploads, client.InNamespace(other.namespace)))
	require.Empty(t, uploads.Items)
	other.requestDeletion("far")
	other.deleted("far")
	require.Empty(t, v.stored())
	left, err := filepath.Glob(filepath.Join(v.store, "backups", "*", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// moving returns a backup of the shop that moves the data of snapshots.
func (v *volumeSite) moving(name string) *velerov1.Backup {
	return &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: name},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{v.shop}, StorageLocation: "default",
			SnapshotMoveData: new(true)},
	}
}

// stored returns the ids of the snapshots in the repository of the shop.
func (v *volumeSite) stored() (ids []string) {
	v.t.Helper()
	entries, err := os.ReadDir(filepath.Join(v.store, "restic", v.shop, "snapshots"))
	require.NoError(v.t, err)
	for _, entry := range entries {
		ids = append(ids, entry.Name())
	}
	return ids
}

// movement returns the record of a backup about the data of its only volume.
func (v *volumeSite) movement(backup string) *volumes.MovementInfo {
	v.t.Helper()
	infos := readJSON[[]volumes.VolumeInfo](v, "backups", backup, backup+"-volumeinfo.json.gz")
	require.Len(v.t, infos, 1)
	require.NotNil(v.t, infos[0].DataMovement)
	return infos[0].DataMovement
}

// restic runs the program of a repository.
func (v *volumeSite) restic(repository string, args ...string) (string, error) {
	cmd := exec.CommandContext(v.t.Context(), programs.Restic(v.t), append([]string{"--repo", repository, "--no-cache"},
		args...)...)
	cmd.Env = append(os.Environ(), "RESTIC_PASSWORD="+string(v.password().Data["repository-password"]))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// password returns the Secret with the password of repositories.
func (v *volumeSite) password() *corev1.Secret {
	v.t.Helper()
	secret := &corev1.Secret{}
	require.NoError(v.t, v.client.Get(v.t.Context(),
		client.ObjectKey{Namespace: v.namespace, Name: "velero-repo-credentials"}, secret))
	return secret
}

// requestDeletion requests the deletion of a backup.
func (v *volumeSite) requestDeletion(backup string) *velerov1.DeleteBackupRequest {
	v.t.Helper()
	request := &velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: backup + "-"},
		Spec: velerov1.DeleteBackupRequestSpec{BackupName: backup}}
	v.create(request)
	return request
}

// deleted waits until a backup no longer exists.
func (v *volumeSite) deleted(backup string) {
	v.t.Helper()
	v.eventually("backup "+backup+" is deleted", func() (bool, error) {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: backup}}
		err := v.client.Get(v.t.Context(), client.ObjectKeyFromObject(b), b)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
