package site

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// AwaitCompleted waits until all backups are Completed.
func (s *Site) AwaitCompleted(names []string) {
	s.T.Helper()
	for _, name := range names {
		s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
	}
}

// AwaitPosition waits until a backup has a position in the queue.
func (s *Site) AwaitPosition(name string, position int) {
	s.T.Helper()
	s.Eventually("backup "+name+" waits", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := s.Client.Get(ctx, s.Key(name), &b)
		return b.Status.QueuePosition == position, err
	})
}

// RequestCancel sets the annotation.
func (s *Site) RequestCancel(object client.Object, name string) {
	s.T.Helper()
	object.SetNamespace(s.Namespace)
	object.SetName(name)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, velerov1.CancelAnnotation)
	require.NoError(s.T, s.Client.Patch(s.T.Context(), object, client.RawPatch("application/merge-patch+json",
		[]byte(patch))))
}

// AwaitGone waits until an object no longer exists.
func (s *Site) AwaitGone(object client.Object, name string) {
	s.T.Helper()
	s.Eventually(name+" is gone", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(name), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// RequestDeletion requests the deletion of a backup under a name of its own.
func (s *Site) RequestDeletion(backup string) *velerov1.DeleteBackupRequest {
	s.T.Helper()
	request := &velerov1.DeleteBackupRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: backup + "-"},
		Spec:       velerov1.DeleteBackupRequestSpec{BackupName: backup},
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), request))
	return request
}

// LastedLong lets the attempt of a backup or restore, whose server was killed, have begun an hour ago, so that it counts.
func (s *Site) LastedLong(name string) {
	s.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"cleat.dev/attempt-times":%q}}}`,
		time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	for _, object := range []client.Object{new(velerov1.Backup), new(velerov1.Restore)} {
		object.SetNamespace(s.Namespace)
		object.SetName(name)
		err := s.Client.Patch(s.T.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch)))
		require.NoError(s.T, client.IgnoreNotFound(err))
	}
}

// Backup returns the current state of a backup.
func (s *Site) Backup(name string) *velerov1.Backup {
	s.T.Helper()
	var b velerov1.Backup
	require.NoError(s.T, s.Client.Get(s.T.Context(), s.Key(name), &b))
	return &b
}

// ResultsOf returns the results of a backup as text.
func (s *Site) ResultsOf(backup string) string {
	s.T.Helper()
	var all any
	require.NoError(s.T, json.NewDecoder(s.Unzipped("backups", backup, backup+"-results.gz")).Decode(&all))
	return fmt.Sprint(all)
}

// UseShop creates the namespace "shop", which several tests use at the same time.
func (s *Site) UseShop() {
	s.T.Helper()
	err := s.Client.Create(s.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(s.T, err)
	}
}

// Workload creates a namespace with some objects to back up.
func (s *Site) Workload(configMaps int) string {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	require.NoError(s.T, s.Client.Create(s.T.Context(), namespace))
	for i := range configMaps {
		require.NoError(s.T, s.Client.Create(s.T.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "item-" + string(rune('a'+i%26)) +
				strings.Repeat("x", i/26)},
			Data: map[string]string{"n": strings.Repeat("v", i)},
		}))
	}
	return namespace.Name
}

// Few returns the resources of site.resources for tests that make very many backups. A backup of all of them reads some
// forty lists, which is most of its work.
func Few() []string { return []string{"configmaps", "secrets"} }

// Done reports whether a course is done.
func (s *Site) Done(ctx context.Context, id, course string) (bool, error) {
	switch course {
	case "backup":
		var b velerov1.Backup
		err := s.Client.Get(ctx, s.Key(id), &b)
		return b.Status.Phase.Terminal(), err
	case "restore":
		var r velerov1.Restore
		err := s.Client.Get(ctx, s.Key(id), &r)
		return r.Status.Phase.Terminal(), err
	default:
		var requests velerov1.DeleteBackupRequestList
		err := s.Client.List(ctx, &requests, client.InNamespace(s.Namespace))
		return len(requests.Items) == 0, err
	}
}

// Key returns the key of an object in the namespace of the site.
func (s *Site) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: name}
}

// BeginBackup creates a backup of the namespace Shop.
func (s *Site) BeginBackup(name string) {
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{s.Shop}, IncludedResources: s.Resources},
	}))
}

// BeginRestore creates a restore of the backup "whole" into a namespace of its own.
func (s *Site) BeginRestore(name string) {
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       velerov1.RestoreSpec{BackupName: "whole", NamespaceMapping: map[string]string{s.Shop: s.Shop + "-copy"}},
	}))
}

// BeginDeletion requests the deletion of a backup.
func (s *Site) BeginDeletion(name string) {
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.DeleteBackupRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       velerov1.DeleteBackupRequestSpec{BackupName: name},
	}))
}

// WholeBackup creates the backup that all restores use.
func (s *Site) WholeBackup(string) {
	err := s.Client.Get(s.T.Context(), s.Key("whole"), &velerov1.Backup{})
	if apierrors.IsNotFound(err) {
		s.BeginBackup("whole")
	}
	s.AwaitBackup("whole", velerov1.BackupPhaseCompleted)
}

// AwaitBackup waits until a backup is in a phase.
func (s *Site) AwaitBackup(name string, want velerov1.BackupPhase) *velerov1.Backup {
	s.T.Helper()
	var b velerov1.Backup
	s.Eventually(fmt.Sprintf("backup %s is %s", name, want), func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(name), &b)
		if err == nil && b.Status.Phase.Terminal() && b.Status.Phase != want {
			require.Fail(s.T, "backup ended otherwise", "%s: %s %s %v", name, b.Status.Phase, b.Status.FailureReason,
				b.Status.ValidationErrors)
		}
		return b.Status.Phase == want, err
	})
	return &b
}

// CheckBackup waits for the end of a backup and checks its files in the bucket.
func (s *Site) CheckBackup(name string) {
	s.T.Helper()
	var b velerov1.Backup
	s.Eventually("backup "+name+" has ended and left nothing behind", func(ctx context.Context) (bool, error) {
		b = velerov1.Backup{}
		err := s.Client.Get(ctx, s.Key(name), &b)
		return b.Status.Phase.Terminal() && b.Annotations["cleat.dev/partial-data"] == "", err
	})
	require.NotNil(s.T, b.Status.CompletionTimestamp)
	require.Equal(s.T, velerov1.BackupPhaseCompleted, b.Status.Phase, "%s: %s", name, b.Status.FailureReason)
	s.RequireWhole(&b)
}

// RequireWhole requires that the bucket holds the complete backup.
func (s *Site) RequireWhole(b *velerov1.Backup) {
	s.T.Helper()
	dir := filepath.Join(s.BucketDir, "backups", b.Name)
	require.Equal(s.T, []string{"manifest.json.gz"}, s.Artifacts(b.Name))
	s.RequireDescribed(b.Name)
	s.RequireSummed(b)
	metadata, err := os.ReadFile(filepath.Join(dir, "velero-backup.json"))
	require.NoError(s.T, err)
	var stored velerov1.Backup
	require.NoError(s.T, json.Unmarshal(metadata, &stored))
	require.Equal(s.T, b.Status, stored.Status, "the bucket tells the same as the cluster")
	require.Equal(s.T, b.Annotations["cleat.dev/claim"], stored.Annotations["cleat.dev/claim"],
		"the files are of the last attempt")
	require.Equal(s.T, "Backup", stored.Kind)
	file, err := os.Open(filepath.Join(dir, b.Name+".tar.gz"))
	require.NoError(s.T, err)
	defer file.Close()
	gz, err := gzip.NewReader(file)
	require.NoError(s.T, err)
	_, err = io.Copy(io.Discard, gz)
	require.NoError(s.T, err)
}

// CheckRestore waits for the end of a restore and checks its files.
func (s *Site) CheckRestore(name string) {
	s.T.Helper()
	var r velerov1.Restore
	s.Eventually("restore "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(name), &r)
		return r.Status.Phase.Terminal(), err
	})
	require.NotNil(s.T, r.Status.CompletionTimestamp)
	require.Equal(s.T, velerov1.RestorePhaseCompleted, r.Status.Phase, "%s: %s", name, r.Status.FailureReason)
	require.Len(s.T, s.Files("restores/"+name), 6)
}

// CheckDeleted waits until a backup is deleted completely.
func (s *Site) CheckDeleted(name string) {
	s.T.Helper()
	s.Eventually("backup "+name+" is deleted", func(ctx context.Context) (bool, error) {
		var request velerov1.DeleteBackupRequest
		err := s.Client.Get(ctx, s.Key(name), &request)
		if err == nil && request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed {
			require.Fail(s.T, "deletion failed", "%s: %s", name, strings.Join(request.Status.Errors, "; "))
		}
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	require.True(s.T, apierrors.IsNotFound(s.Client.Get(s.T.Context(), s.Key(name), &velerov1.Backup{})))
	require.True(s.T, apierrors.IsNotFound(s.Client.Get(s.T.Context(), s.Key(name), &velerov1.Restore{})))
	require.Empty(s.T, s.Files("backups/"+name))
	require.Empty(s.T, s.Files("restores/"+name))
}

// AwaitWait waits until "describe" shows that a backup or restore waits for something.
func (s *Site) AwaitWait(kind, name, what string) {
	s.T.Helper()
	s.Eventually(kind+" "+name+" waits for "+what, func(context.Context) (bool, error) {
		described, _, err := s.Run(kind, "describe", name)
		if err != nil {
			return false, err // it may not exist yet
		}
		_, waits, _ := strings.Cut(described, "\nWaits for:\n")
		return strings.Contains(waits, what) && strings.Contains(waits, ", since 20"), nil
	})
}

// RequireNoWait requires that a backup or restore that has ended does not wait any more.
func (s *Site) RequireNoWait(kind, name string) {
	s.T.Helper()
	require.NotContains(s.T, s.Must(kind, "describe", name), "Waits for:")
	require.NotContains(s.T, s.Must(kind, "get", name, "-o", "yaml"), velerov1.WaitsAnnotation)
}

// AwaitEndOfRestore waits for the end of a restore.
func (s *Site) AwaitEndOfRestore(name string) *velerov1.Restore {
	s.T.Helper()
	var r velerov1.Restore
	s.Eventually("restore "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key(name), &r)
		return r.Status.Phase.Terminal(), err
	})
	return &r
}
