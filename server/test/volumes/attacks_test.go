package volumes_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/test/csidriver"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptSecurity_ExpiredOnArrival has an attacker who can only write to the bucket, and names snapshots of others
// there. The server deletes only the snapshots that the cluster records as the backup's.
func TestAcceptSecurity_ExpiredOnArrival(t *testing.T) {
	t.Parallel()
	t.Run("a backup that arrives expired", expiredOnArrival)
	t.Run("a file that was replaced", replacedSnapshots)
	t.Run("items for plugins", plantedItems)
}

// plant writes a JSON file of a backup into the bucket, compressed.
func plant(s *site.Site, value any, backup, file string) {
	s.T.Helper()
	var content bytes.Buffer
	zipped := gzip.NewWriter(&content)
	require.NoError(s.T, json.NewEncoder(zipped).Encode(value))
	require.NoError(s.T, zipped.Close())
	dir := filepath.Join(s.BucketDir, "backups", backup)
	require.NoError(s.T, os.MkdirAll(dir, 0o755))
	require.NoError(s.T, os.WriteFile(filepath.Join(dir, backup+"-"+file+".json.gz"), content.Bytes(), 0o644))
}

// expired makes a backup expire.
func expired(b *velerov1.Backup) {
	b.Status.Expiration = &metav1.Time{Time: time.Now().Add(-time.Hour)}
	b.Annotations = map[string]string{"cleat.dev/delete-snapshots": "true", "cleat.dev/files": "any"}
}

// awaitKept waits for the event that names the kept snapshots.
func awaitKept(s *site.Site, backup string, says ...string) {
	s.T.Helper()
	s.Eventually("an event says what was kept", func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "SnapshotsKept" && e.Regarding.Name == backup &&
				!slices.ContainsFunc(says, func(text string) bool { return !strings.Contains(e.Note, text) })
		}), err
	})
}

func expiredOnArrival(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Shop = s.Workload(1)
	d := newDisks(s)
	d.claim("data")
	server := s.Serve(append(d.args, site.Often...)...)
	s.Available()
	b := d.backUp("victim", nil)
	snapshots, _, errs := d.stored("victim")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, errs)
	require.Len(t, snapshots, 1)
	taken := d.list("snapshots")

	named := snapshots[0]
	named.Spec.BackupName = "evil"
	plant(s, []volumes.Snapshot{named}, "evil", "volumesnapshots")
	s.StoreMetadata("victim", "evil", expired)
	s.Eventually("the expired backup is gone",
		func(context.Context) (bool, error) { return len(s.Files("backups/evil")) == 0, nil })
	require.Equal(t, taken, d.list("snapshots"), "the snapshot of another backup is deleted")
	awaitKept(s, "evil", taken[0])
	server.AwaitLine("kept", taken[0])

	// A user who deletes such a backup is shown the names, and confirms the deletion.
	plant(s, []volumes.Snapshot{named}, "doubtful", "volumesnapshots")
	s.StoreMetadata("victim", "doubtful", nil)
	s.AwaitNames("doubtful", "victim")
	_, stderr, err := s.Run("backup", "delete", "doubtful", "--confirm", "--wait")
	require.Error(t, err)
	require.Contains(t, stderr, taken[0])
	require.Contains(t, stderr, "--delete-snapshots")
	require.NotEmpty(t, s.Files("backups/doubtful"))
	s.Must("backup", "delete", "doubtful", "--confirm", "--wait", "--delete-snapshots=false")
	require.Empty(t, s.Files("backups/doubtful"))
	require.Equal(t, taken, d.list("snapshots"))

	// The backup itself deletes its snapshots when it expires.
	s.Expire("victim")
	s.AwaitGone(new(velerov1.Backup), "victim")
	require.Empty(t, d.list("snapshots"))
}

// replacedSnapshots has a file of a backup of this cluster that names the snapshot of another one.
func replacedSnapshots(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	d := newDisks(s)
	d.claim("data")
	s.Serve(append(d.args, site.Often...)...)
	s.Available()
	d.backUp("victim", nil)
	taken := d.list("snapshots")
	require.Len(t, taken, 1)
	snapshots, _, _ := d.stored("victim")
	no := false
	d.backUp("harmless", func(spec *velerov1.BackupSpec) { spec.SnapshotVolumes = &no })
	plant(s, snapshots, "harmless", "volumesnapshots")
	s.Expire("harmless")
	s.AwaitGone(new(velerov1.Backup), "harmless")
	require.Equal(t, taken, d.list("snapshots"), "the snapshot of another backup is deleted")
	awaitKept(s, "harmless", taken[0])
}

// plantedItems shows that plugins are not called for items that were not backed up.
func plantedItems(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	notes := s.WatchItems("0s")
	s.Serve(append(notes.Args, site.Often...)...)
	s.Available()
	s.Shop = s.Workload(1)
	s.WholeBackup("")
	s.Copies("whole", expired, "evil")
	s.Eventually("the expired backup is gone",
		func(context.Context) (bool, error) { return len(s.Files("backups/evil")) == 0, nil })
	require.Zero(t, notes.Deleted("evil"), "a plugin is called for what a bucket has brought")
	awaitKept(s, "evil", "DeleteItemAction")
	s.Expire("whole")
	s.AwaitGone(new(velerov1.Backup), "whole")
	require.NotZero(t, notes.Deleted("whole"))
}

// TestAcceptSecurity_NotesOfTheCluster has somebody replace the archive and the velero-backup.json of a backup that waits
// for a snapshot: the backup looks final, and its notes are those of the archive, which names a snapshot of another
// backup. The cluster keeps its own notes, so that the deletion of the backup leaves that snapshot.
func TestAcceptSecurity_NotesOfTheCluster(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	v.claim("data", "")
	v.Serve("--features", "EnableCSI", "--store-outage-timeout", "2s")
	v.Available()
	v.begin("victim", nil)
	require.Equal(t, velerov1.BackupPhaseCompleted, v.AwaitEnd("victim").Status.Phase)
	taken := v.taken()
	require.Len(t, taken, 1)

	ready := filepath.Join(t.TempDir(), "ready")
	v.claim("held", v.class("held", map[string]string{csidriver.ReadyWith: ready}))
	v.begin("b", nil)
	v.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	archive := v.File("victim", "victim.tar.gz")
	sum := store.MetadataTally(archive)[store.MetadataFile]
	var b velerov1.Backup
	require.NoError(t, json.Unmarshal(v.File("b", store.MetadataFile), &b))
	b.Status.Phase = velerov1.BackupPhaseCompleted
	b.Annotations[velerov1.FilesAnnotation] = store.Tally{"b.tar.gz": sum}.String()
	metadata, err := json.Marshal(&b)
	require.NoError(t, err)
	dir := filepath.Join(v.BucketDir, "backups", "b")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.tar.gz"), archive, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, store.MetadataFile), metadata, 0o600))
	require.NoError(t, os.WriteFile(ready, nil, 0o600))
	ended := v.AwaitEnd("b")
	for _, noted := range store.Noted(ended) {
		require.NotEqual(t, sum, noted["b.tar.gz"])
	}
	_, stderr, err := v.Run("backup", "delete", "b", "--confirm", "--wait")
	require.Error(t, err)
	require.Contains(t, stderr, "--delete-snapshots")
	require.Contains(t, v.taken(), taken[0], "the snapshot of another backup is deleted")
}

// TestAcceptSecurity_Password has new installations create a password of their own. It does not change the passwords
// of others.
func TestAcceptSecurity_Password(t *testing.T) {
	t.Parallel()
	password := func(s *site.Site) string {
		var secret corev1.Secret
		require.NoError(t, s.Client.Get(t.Context(), s.Key("velero-repo-credentials"), &secret))
		return string(secret.Data["repository-password"])
	}
	install := []string{"install", "--no-default-backup-location", "--no-secret", "--use-volume-snapshots=false"}
	s := site.New(t, "cleat.dev/file")
	require.Contains(t, s.Must(install...), "secret/velero-repo-credentials created; keep a copy of it")
	own := password(s)
	require.NotEqual(t, "static-passw0rd", own)
	require.Greater(t, len(own), 20)
	require.NotContains(t, s.Must(append(install, "--apply")...), "velero-repo-credentials")
	require.Equal(t, own, password(s), "a password that repositories have is not replaced")
	require.NotContains(t, s.Must(append(install, "--dry-run", "-o", "yaml")...), own)

	old := site.New(t, "cleat.dev/file")
	require.NoError(t, old.Client.Create(t.Context(), &velerov1.BackupRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: "shop-default-restic"},
		Spec: velerov1.BackupRepositorySpec{VolumeNamespace: "shop", BackupStorageLocation: "default",
			RepositoryType: velerov1.RepositoryTypeRestic},
	}))
	require.Contains(t, old.Must(install...), "created with the public password that the repositories of volumes have")
	require.Equal(t, "static-passw0rd", password(old), "repositories of Velero still open")
	require.Contains(t, old.Must(install...), "which is public")
	server := old.Serve("--store-validation-frequency=1s")
	server.AwaitLine("which is public")
	old.Eventually("the location says so", func(ctx context.Context) (bool, error) {
		var l velerov1.BackupStorageLocation
		err := old.Client.Get(ctx, old.Key("default"), &l)
		return l.Status.Phase == velerov1.BackupStorageLocationPhaseAvailable &&
			strings.Contains(l.Status.Message, "which is public"), err
	})
}

// TestAcceptSecurity_Synchronised replaces the file of the operations for which a backup waits. The new file requests
// the backup of an object that the attacker, who can write to the bucket, could then read.
func TestAcceptSecurity_Synchronised(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.Work()
	server := s.Serve(w.Args...)
	s.Available()
	shop := s.Workload(1)
	require.NoError(t, s.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "of-nobody-else"}, StringData: map[string]string{
			"value": "secret",
		},
	}))
	s.Item(shop, "a", "keyed", "length", "held", "after", "a")
	s.BeginBackupOf("b", shop)
	s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
	server.Kill()
	file := site.Gzipped[[]map[string]any](s, "backups/b/b-itemoperations.json.gz")
	require.Len(t, file, 1)
	spec, ok := file[0]["spec"].(map[string]any)
	require.True(t, ok)
	spec["postOperationItems"] = []map[string]any{{"Resource": "secrets", "Namespace": s.Namespace,
		"Name": "of-nobody-else"}}
	plant(s, file, "b", "itemoperations")
	s.Serve(w.Args...).AwaitLine("the file of the operations cannot be used as it is",
		"the file was changed since the backup was made")
	w.Finish()
	s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	list := site.Gzipped[map[string][]string](s, "backups/b/b-resource-list.json.gz")
	require.NotContains(t, list["v1/Secret"], s.Namespace+"/of-nobody-else",
		"an object that is not in the backup was read for it")
	s.AwaitNoJournals()
}
