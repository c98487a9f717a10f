package main_test

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

func (s *site) accessMode(mode velerov1.BackupStorageLocationAccessMode) {
	s.t.Helper()
	s.changeLocation(func(l *velerov1.BackupStorageLocation) { l.Spec.AccessMode = mode })
}

func expiredAreDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	s.serve(append(often, "--default-backup-ttl", "3s")...)
	s.available()
	s.shop = s.workload(2)
	s.must("backup", "create", "keeps", "--include-namespaces", s.shop, "--ttl", "1h", "--wait")
	lifetime := make(chan time.Duration, 1)
	s.eachState(func(b *velerov1.Backup) {
		if b.Name == "goes" && b.Status.Expiration != nil && len(lifetime) == 0 {
			lifetime <- b.Spec.TTL.Duration
		}
	})
	s.beginBackup("goes")
	s.awaitGone(new(velerov1.Backup), "goes")
	require.Empty(t, s.files("backups/goes"))
	s.eventually("no request is left", func(ctx context.Context) (bool, error) {
		var requests velerov1.DeleteBackupRequestList
		err := s.client.List(ctx, &requests, client.InNamespace(s.namespace))
		return len(requests.Items) == 0, err
	})
	require.Equal(t, 3*time.Second, <-lifetime)
	kept := s.backup("keeps")
	require.Equal(t, velerov1.BackupPhaseCompleted, kept.Status.Phase)
	require.Equal(t, time.Hour, kept.Spec.TTL.Duration)
	require.Contains(t, s.files("backups/keeps"), "velero-backup.json")
}

func expiredWhileRead(t *testing.T) {
	t.Parallel()
	s, g := newGatedSite(t)
	server := s.serve(often...)
	s.available()
	s.shop = s.workload(10)
	s.wholeBackup("")
	s.beginHeldRestore(g, "back")
	s.expire("whole")
	s.eventually("an event says that the backup is kept", func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := s.client.List(ctx, &list, client.InNamespace(s.namespace))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "KeptForRestore" && e.Regarding.Name == "whole" && strings.Contains(e.Note, "restore back")
		}), err
	})
	server.awaitLine("it is deleted when the restore has ended that reads it", "restore=back")
	require.Equal(t, velerov1.BackupPhaseCompleted, s.backup("whole").Status.Phase)
	g.disarm()
	s.awaitGone(new(velerov1.Backup), "whole")
	var restored corev1.ConfigMapList
	require.NoError(t, s.client.List(t.Context(), &restored, client.InNamespace(s.shop+"-back"),
		client.MatchingLabels{"velero.io/restore-name": "back"}))
	require.Len(t, restored.Items, 10, "kube-root-ca.crt was there")
	require.Empty(t, s.files("backups/whole"))
	require.Empty(t, s.files("restores/back"))
}

func expiredInReadOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.serve(often...)
	s.available()
	s.shop = s.workload(2)
	s.wholeBackup("")
	s.accessMode(velerov1.BackupStorageLocationAccessModeReadOnly)
	s.expire("whole")
	s.eventually("the label says why", func(context.Context) (bool, error) {
		return s.backup("whole").Labels["velero.io/gc-failure"] == "BSLReadOnly", nil
	})
	require.Contains(t, s.files("backups/whole"), "velero-backup.json")
	s.accessMode(velerov1.BackupStorageLocationAccessModeReadWrite)
	s.awaitGone(new(velerov1.Backup), "whole")
	require.Empty(t, s.files("backups/whole"))
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("copy-%03d", i))
	}
	return names
}

func killedWhileCollecting(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	server := s.serve(often...)
	s.available()
	s.shop = s.workload(1)
	s.wholeBackup("")
	names := numbered(40)
	s.copies("whole", func(b *velerov1.Backup) {
		b.Status.Expiration = &metav1.Time{Time: time.Now().Add(
			15 * time.Second,
		)}
	}, names...)
	for left := 30; left > 0; left -= 10 {
		s.eventually("some backups are gone", func(context.Context) (bool, error) {
			files := len(s.files("backups")) - 1
			return files <= left, nil
		})
		server.kill()
		server = s.serve(often...)
	}
	s.eventually("all files are gone", func(context.Context) (bool, error) { return len(s.files("backups")) == 1, nil })
	s.awaitNames("whole")
	s.eventually("no request is left", func(ctx context.Context) (bool, error) {
		var requests velerov1.DeleteBackupRequestList
		err := s.client.List(ctx, &requests, client.InNamespace(s.namespace))
		return len(requests.Items) == 0, err
	})
}

func collectorAndSyncDisabled(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	server := s.serve(append(often, "--disable-controllers", "gc,backup-sync")...)
	s.available()
	s.shop = s.workload(1)
	s.wholeBackup("")
	s.copies("whole", nil, "copy")
	s.expire("whole")
	require.Contains(t, server.log.String(), "controller disabled: controller=gc")
	require.Contains(t, server.log.String(), "controller disabled: controller=backup-sync")
	s.must("backup", "create", "later", "--include-namespaces", s.shop, "--wait")
	require.Equal(t, []string{"later", "whole"}, s.backupNames())
	server.kill()
	s.serve(append(often, "--disable-controllers", "backup-deletion")...).awaitLine("controller disabled",
		"backup-deletion", "controller=gc")
	s.awaitNames("copy", "later", "whole")
}

// beside returns another installation on the bucket of this one.
func (s *site) beside() *site {
	s.t.Helper()
	other := newSite(s.t, "cleat.dev/s3")
	other.bucketDir, other.shop = s.bucketDir, s.shop
	other.changeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.ObjectStorage.Bucket = filepath.Base(
			s.bucketDir,
		)
	})
	return other
}

func anotherCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	first := s.serve()
	s.available()
	s.shop = s.workload(5)
	s.wholeBackup("")
	require.NoError(t, first.stop())

	other := s.beside()
	other.accessMode(velerov1.BackupStorageLocationAccessModeReadOnly)
	other.serve(append(often, "--restore-only")...)
	other.awaitNames("whole")
	made, brought := s.backup("whole"), other.backup("whole")
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
	other.eventually("the time is written", func(ctx context.Context) (bool, error) {
		err := other.client.Get(ctx, other.key("default"), &location)
		return location.Status.LastSyncedTime != nil, err
	})
	require.NoError(t, s.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.shop}}))
	other.beginRestore("back")
	other.checkRestore("back")

	// Files that vanish take the Backup with them, those of other locations stay.
	require.NoError(t, other.client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: other.namespace, Name: "elsewhere",
			Labels: map[string]string{"velero.io/storage-location": "other"}},
		Spec: velerov1.BackupSpec{StorageLocation: "other"}, Status: velerov1.BackupStatus{
			Phase: velerov1.BackupPhaseCompleted,
		},
	}))
	failed := brought.DeepCopy()
	failed.ObjectMeta = metav1.ObjectMeta{Namespace: other.namespace, Name: "failed", Labels: brought.Labels}
	failed.Status.Phase = velerov1.BackupPhaseFailed
	require.NoError(t, other.client.Create(t.Context(), failed))
	require.NoError(t, os.RemoveAll(filepath.Join(s.bucketDir, "backups", "whole")))
	other.awaitNames("elsewhere", "failed")
}

func twoClusters(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	s.shop = s.workload(3)
	other := s.beside()
	for _, one := range []*site{s, other} {
		one.serve(often...)
		one.available()
	}
	var all []string
	for i := range 4 {
		for prefix, one := range map[string]*site{"a": s, "b": other} {
			name := fmt.Sprintf("%s-%d", prefix, i)
			one.beginBackup(name)
			all = append(all, name)
		}
	}
	slices.Sort(all)
	s.awaitNames(all...)
	other.awaitNames(all...)
	for _, one := range []*site{s, other} {
		for _, name := range all {
			require.Equal(t, name, one.awaitBackup(name, velerov1.BackupPhaseCompleted).Name)
		}
	}
	// Each deletes one that the other has made.
	s.must("backup", "delete", "b-0", "--confirm", "--wait")
	other.must("backup", "delete", "a-0", "--confirm", "--wait")
	left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return strings.HasSuffix(name, "-0") })
	s.awaitNames(left...)
	other.awaitNames(left...)
	require.Equal(t, left, s.files("backups"))
}

func bucketWithOtherThings(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	first := s.serve()
	s.available()
	s.shop = s.workload(1)
	s.wholeBackup("")
	require.NoError(t, first.stop())

	in := func(phase velerov1.BackupPhase) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) { b.Status.Phase = phase }
	}
	s.storeMetadata("whole", "runs-elsewhere", in(velerov1.BackupPhaseInProgress))
	s.storeMetadata("whole", "finalizes-elsewhere", in(velerov1.BackupPhaseFinalizing))
	s.storeMetadata("whole", "never-began", in(""))
	s.storeMetadata("whole", "is-called-otherwise", func(b *velerov1.Backup) { b.Name = "otherwise" })
	s.storeMetadata("whole", "has-annotations", func(b *velerov1.Backup) {
		b.Finalizers, b.OwnerReferences = []string{"example.io/forever"}, []metav1.OwnerReference{{APIVersion: "velero.io/v1",
			Kind: "Schedule", Name: "none", UID: "x"}}
		b.Annotations = map[string]string{"cleat.dev/partial-data": "to-be-removed", "example.io/kept": "yes"}
		b.Status.Phase = velerov1.BackupPhaseFailed
	})
	s.storeMetadata("whole", "was-left", func(b *velerov1.Backup) {
		b.Status.Phase, b.Status.Expiration = velerov1.BackupPhaseFinalizing, &metav1.Time{Time: time.Now().Add(-time.Hour)}
	})
	write := func(path, content string) {
		file := filepath.Join(s.bucketDir, "backups", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	write("half/half.tar.gz", "x")
	write("page/velero-backup.json", "<html>")
	write("list/velero-backup.json", `{"apiVersion":"v1","kind":"List"}`)
	write("No Name/velero-backup.json", "{}")
	write("under_score/velero-backup.json", "{}")
	write("file", "x")

	other := s.beside()
	server := other.serve("--backup-sync-period", "1s", "--disable-controllers", "gc")
	other.awaitNames("has-annotations", "was-left", "whole")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, other.backup("was-left").Status.Phase)
	brought := other.backup("has-annotations")
	require.Equal(t, map[string]string{"example.io/kept": "yes"}, brought.Annotations)
	require.Empty(t, brought.Finalizers)
	require.Empty(t, brought.OwnerReferences)
	line := "skipped directories of the bucket"
	server.awaitLine(line, "number=9", "2 because its name cannot be the name of a backup (No Name, under_score)",
		"(half)", "never-began",
		"want the name of the directory", `3 because the cluster that makes the backup has not finished it`)

	// A look without a change writes nothing, a change one line.
	var synced velerov1.BackupStorageLocation
	pass := func() {
		require.NoError(t, other.client.Get(t.Context(), other.key("default"), &synced))
		before := synced.Status.LastSyncedTime
		other.eventually("another pass", func(ctx context.Context) (bool, error) {
			err := other.client.Get(ctx, other.key("default"), &synced)
			return synced.Status.LastSyncedTime != nil && !synced.Status.LastSyncedTime.Equal(before), err
		})
	}
	pass()
	pass()
	require.Equal(t, 1, strings.Count(server.log.String(), line))
	s.storeMetadata("whole", "half", nil)
	other.awaitNames("half", "has-annotations", "was-left", "whole")
	server.awaitLine(line, "number=8")
	pass()
	require.Equal(t, 2, strings.Count(server.log.String(), line))
}

func killedWhileBringing(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/s3")
	first := s.serve()
	s.available()
	s.shop = s.workload(1)
	s.wholeBackup("")
	require.NoError(t, first.stop())
	names := numbered(200)
	for _, name := range names {
		s.storeMetadata("whole", name, nil)
	}
	other := s.beside()
	for want := 1; want < len(names); want += 60 {
		server := other.serve(often...)
		other.eventually("some are there", func(context.Context) (bool, error) {
			return len(other.backupNames()) >= want,
				nil
		})
		server.kill()
	}
	other.serve(often...)
	other.awaitNames(append(names, "whole")...)
}
