package backups_test

import (
	"context"
	"fmt"
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
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptBackup_ExpiryAndSync shows that expired backups are deleted with their files, and that the cluster follows
// its buckets.
func TestAcceptBackup_ExpiryAndSync(t *testing.T) {
	t.Parallel()
	t.Run("expired backups are deleted", expiredAreDeleted)
	t.Run("a backup that a restore reads is kept until its end", expiredWhileRead)
	t.Run("a backup in a read-only location is kept", expiredInReadOnly)
	t.Run("a server that is killed while it deletes", killedWhileCollecting)
	t.Run("controllers can be disabled", collectorAndSyncDisabled)
	t.Run("another cluster gets the backups of the bucket", anotherCluster)
	t.Run("two clusters write to one bucket", twoClusters)
	t.Run("a bucket with other things", bucketWithOtherThings)
	t.Run("a server that is killed while it brings backups", killedWhileBringing)
}

func accessMode(s *site.Site, mode velerov1.BackupStorageLocationAccessMode) {
	s.T.Helper()
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) { l.Spec.AccessMode = mode })
}

func expiredAreDeleted(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Serve(append(site.Often, "--default-backup-ttl", "3s")...)
	s.Available()
	s.Shop = s.Workload(2)
	s.Must("backup", "create", "keeps", "--include-namespaces", s.Shop, "--ttl", "1h", "--wait")
	lifetime := make(chan time.Duration, 1)
	s.EachState(func(b *velerov1.Backup) {
		if b.Name == "goes" && b.Status.Expiration != nil && len(lifetime) == 0 {
			lifetime <- b.Spec.TTL.Duration
		}
	})
	s.BeginBackup("goes")
	s.AwaitGone(new(velerov1.Backup), "goes")
	require.Empty(t, s.Files("backups/goes"))
	s.Eventually("no request is left", func(ctx context.Context) (bool, error) {
		var requests velerov1.DeleteBackupRequestList
		err := s.Client.List(ctx, &requests, client.InNamespace(s.Namespace))
		return len(requests.Items) == 0, err
	})
	require.Equal(t, 3*time.Second, <-lifetime)
	kept := s.Backup("keeps")
	require.Equal(t, velerov1.BackupPhaseCompleted, kept.Status.Phase)
	require.Equal(t, time.Hour, kept.Spec.TTL.Duration)
	require.Contains(t, s.Files("backups/keeps"), "velero-backup.json")
}

func expiredWhileRead(t *testing.T) {
	t.Parallel()
	s, g := site.NewGated(t)
	server := s.Serve(site.Often...)
	s.Available()
	s.Shop = s.Workload(10)
	s.WholeBackup("")
	s.BeginHeldRestore(g, "back")
	s.Expire("whole")
	s.Eventually("an event says that the backup is kept", func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "KeptForRestore" && e.Regarding.Name == "whole" && strings.Contains(e.Note, "restore back")
		}), err
	})
	server.AwaitLine("it is deleted when the restore has ended that reads it", "restore=back")
	require.Equal(t, velerov1.BackupPhaseCompleted, s.Backup("whole").Status.Phase)
	g.Disarm()
	s.AwaitGone(new(velerov1.Backup), "whole")
	var restored corev1.ConfigMapList
	require.NoError(t, s.Client.List(t.Context(), &restored, client.InNamespace(s.Shop+"-back"),
		client.MatchingLabels{"velero.io/restore-name": "back"}))
	require.Len(t, restored.Items, 10, "kube-root-ca.crt was there")
	require.Empty(t, s.Files("backups/whole"))
	require.Empty(t, s.Files("restores/back"))
}

func expiredInReadOnly(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve(site.Often...)
	s.Available()
	s.Shop = s.Workload(2)
	s.WholeBackup("")
	accessMode(s, velerov1.BackupStorageLocationAccessModeReadOnly)
	s.Expire("whole")
	s.Eventually("the label says why", func(context.Context) (bool, error) {
		return s.Backup("whole").Labels["velero.io/gc-failure"] == "BSLReadOnly", nil
	})
	require.Contains(t, s.Files("backups/whole"), "velero-backup.json")
	accessMode(s, velerov1.BackupStorageLocationAccessModeReadWrite)
	s.AwaitGone(new(velerov1.Backup), "whole")
	require.Empty(t, s.Files("backups/whole"))
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("copy-%03d", i))
	}
	return names
}

func killedWhileCollecting(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	server := s.Serve(site.Often...)
	s.Available()
	s.Shop = s.Workload(1)
	s.WholeBackup("")
	names := numbered(40)
	s.Copies("whole", func(b *velerov1.Backup) {
		b.Status.Expiration = &metav1.Time{Time: time.Now().Add(
			15 * time.Second,
		)}
	}, names...)
	for left := 30; left > 0; left -= 10 {
		s.Eventually("some backups are gone", func(context.Context) (bool, error) {
			files := len(s.Files("backups")) - 1
			return files <= left, nil
		})
		server.Kill()
		server = s.Serve(site.Often...)
	}
	s.Eventually("all files are gone", func(context.Context) (bool, error) { return len(s.Files("backups")) == 1, nil })
	s.AwaitNames("whole")
	s.Eventually("no request is left", func(ctx context.Context) (bool, error) {
		var requests velerov1.DeleteBackupRequestList
		err := s.Client.List(ctx, &requests, client.InNamespace(s.Namespace))
		return len(requests.Items) == 0, err
	})
}

func collectorAndSyncDisabled(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	server := s.Serve(append(site.Often, "--disable-controllers", "gc,backup-sync")...)
	s.Available()
	s.Shop = s.Workload(1)
	s.WholeBackup("")
	s.Copies("whole", nil, "copy")
	s.Expire("whole")
	require.Contains(t, server.Log.String(), "controller disabled: controller=gc")
	require.Contains(t, server.Log.String(), "controller disabled: controller=backup-sync")
	s.Must("backup", "create", "later", "--include-namespaces", s.Shop, "--wait")
	require.Equal(t, []string{"later", "whole"}, s.BackupNames())
	server.Kill()
	s.Serve(append(site.Often, "--disable-controllers", "backup-deletion")...).AwaitLine("controller disabled",
		"backup-deletion", "controller=gc")
	s.AwaitNames("copy", "later", "whole")
}

// beside returns another installation that uses the bucket of this one.
func beside(s *site.Site) *site.Site {
	s.T.Helper()
	other := site.New(s.T, "cleat.dev/s3")
	other.BucketDir, other.Shop = s.BucketDir, s.Shop
	other.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.ObjectStorage.Bucket = filepath.Base(
			s.BucketDir,
		)
	})
	return other
}

func anotherCluster(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	first := s.Serve()
	s.Available()
	s.Shop = s.Workload(5)
	s.WholeBackup("")
	require.NoError(t, first.Stop())

	other := beside(s)
	accessMode(other, velerov1.BackupStorageLocationAccessModeReadOnly)
	other.Serve(append(site.Often, "--restore-only")...)
	other.AwaitNames("whole")
	made, brought := s.Backup("whole"), other.Backup("whole")
	require.NotEqual(t, made.UID, brought.UID)
	require.Equal(t, made.Spec, brought.Spec)
	require.Equal(t, made.Status, brought.Status)
	require.Equal(t, "default", brought.Labels["velero.io/storage-location"])
	for annotation := range brought.Annotations {
		require.NotContains(t, annotation, "cleat.dev/")
	}
	require.Equal(t, made.Annotations["velero.io/source-cluster-k8s-gitversion"],
		brought.Annotations["velero.io/source-cluster-k8s-gitversion"])
	var location velerov1.BackupStorageLocation
	other.Eventually("the time is written", func(ctx context.Context) (bool, error) {
		err := other.Client.Get(ctx, other.Key("default"), &location)
		return location.Status.LastSyncedTime != nil, err
	})
	require.NoError(t, s.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Shop}}))
	other.BeginRestore("back")
	other.CheckRestore("back")

	// If the files of a Backup vanish, it is deleted; Backups of other locations stay.
	require.NoError(t, other.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: "elsewhere",
			Labels: map[string]string{"velero.io/storage-location": "other"}},
		Spec: velerov1.BackupSpec{StorageLocation: "other"}, Status: velerov1.BackupStatus{
			Phase: velerov1.BackupPhaseCompleted,
		},
	}))
	failed := brought.DeepCopy()
	failed.ObjectMeta = metav1.ObjectMeta{Namespace: other.Namespace, Name: "failed", Labels: brought.Labels}
	failed.Status.Phase = velerov1.BackupPhaseFailed
	require.NoError(t, other.Client.Create(t.Context(), failed))
	require.NoError(t, os.RemoveAll(filepath.Join(s.BucketDir, "backups", "whole")))
	other.AwaitNames("elsewhere", "failed")
}

func twoClusters(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Shop = s.Workload(3)
	other := beside(s)
	for _, one := range []*site.Site{s, other} {
		one.Serve(site.Often...)
		one.Available()
	}
	var all []string
	for i := range 4 {
		for prefix, one := range map[string]*site.Site{"a": s, "b": other} {
			name := fmt.Sprintf("%s-%d", prefix, i)
			one.BeginBackup(name)
			all = append(all, name)
		}
	}
	slices.Sort(all)
	s.AwaitNames(all...)
	other.AwaitNames(all...)
	for _, one := range []*site.Site{s, other} {
		for _, name := range all {
			require.Equal(t, name, one.AwaitBackup(name, velerov1.BackupPhaseCompleted).Name)
		}
	}
	// Each deletes a backup of the other.
	s.Must("backup", "delete", "b-0", "--confirm", "--wait")
	other.Must("backup", "delete", "a-0", "--confirm", "--wait")
	left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return strings.HasSuffix(name, "-0") })
	s.AwaitNames(left...)
	other.AwaitNames(left...)
	require.Equal(t, left, s.Files("backups"))
}

func bucketWithOtherThings(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	first := s.Serve()
	s.Available()
	s.Shop = s.Workload(1)
	s.WholeBackup("")
	require.NoError(t, first.Stop())

	in := func(phase velerov1.BackupPhase) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) { b.Status.Phase = phase }
	}
	s.StoreMetadata("whole", "runs-elsewhere", in(velerov1.BackupPhaseInProgress))
	s.StoreMetadata("whole", "finalizes-elsewhere", in(velerov1.BackupPhaseFinalizing))
	s.StoreMetadata("whole", "never-began", in(""))
	s.StoreMetadata("whole", "is-called-otherwise", func(b *velerov1.Backup) { b.Name = "otherwise" })
	s.StoreMetadata("whole", "has-annotations", func(b *velerov1.Backup) {
		b.Finalizers, b.OwnerReferences = []string{"example.io/forever"}, []metav1.OwnerReference{{APIVersion: "velero.io/v1",
			Kind: "Schedule", Name: "none", UID: "x"}}
		b.Annotations = map[string]string{"cleat.dev/partial-data": "to-be-removed", "example.io/kept": "yes"}
		b.Status.Phase = velerov1.BackupPhaseFailed
	})
	s.StoreMetadata("whole", "was-left", func(b *velerov1.Backup) {
		b.Status.Phase, b.Status.Expiration = velerov1.BackupPhaseFinalizing, &metav1.Time{Time: time.Now().Add(-time.Hour)}
	})
	write := func(path, content string) {
		file := filepath.Join(s.BucketDir, "backups", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	write("half/half.tar.gz", "x")
	write("page/velero-backup.json", "<html>")
	write("list/velero-backup.json", `{"apiVersion":"v1","kind":"List"}`)
	write("No Name/velero-backup.json", "{}")
	write("under_score/velero-backup.json", "{}")
	write("file", "x")

	other := beside(s)
	server := other.Serve("--backup-sync-period", "1s", "--disable-controllers", "gc")
	other.AwaitNames("has-annotations", "was-left", "whole")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, other.Backup("was-left").Status.Phase)
	brought := other.Backup("has-annotations")
	require.Equal(t, map[string]string{"example.io/kept": "yes"}, brought.Annotations)
	require.Empty(t, brought.Finalizers)
	require.Empty(t, brought.OwnerReferences)
	line := "skipped directories of the bucket"
	server.AwaitLine(line, "number=9", "2 because its name cannot be the name of a backup (No Name, under_score)",
		"(half)", "never-began",
		"want the name of the directory", `3 because the cluster that makes the backup has not finished it`)

	// A pass without a change writes nothing, a change one line.
	var synced velerov1.BackupStorageLocation
	pass := func() {
		require.NoError(t, other.Client.Get(t.Context(), other.Key("default"), &synced))
		before := synced.Status.LastSyncedTime
		other.Eventually("another pass", func(ctx context.Context) (bool, error) {
			err := other.Client.Get(ctx, other.Key("default"), &synced)
			return synced.Status.LastSyncedTime != nil && !synced.Status.LastSyncedTime.Equal(before), err
		})
	}
	pass()
	pass()
	require.Equal(t, 1, strings.Count(server.Log.String(), line))
	s.StoreMetadata("whole", "half", nil)
	other.AwaitNames("half", "has-annotations", "was-left", "whole")
	server.AwaitLine(line, "number=8")
	pass()
	require.Equal(t, 2, strings.Count(server.Log.String(), line))
}

func killedWhileBringing(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	first := s.Serve()
	s.Available()
	s.Shop = s.Workload(1)
	s.WholeBackup("")
	require.NoError(t, first.Stop())
	names := numbered(200)
	for _, name := range names {
		s.StoreMetadata("whole", name, nil)
	}
	other := beside(s)
	for want := 1; want < len(names); want += 60 {
		server := other.Serve(site.Often...)
		other.Eventually("some are there", func(context.Context) (bool, error) {
			return len(other.BackupNames()) >= want, nil
		})
		server.Kill()
	}
	other.Serve(site.Often...)
	other.AwaitNames(append(names, "whole")...)
}
