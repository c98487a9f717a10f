package main_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// awaitCompleted waits until all backups are Completed.
func (s *site) awaitCompleted(names []string) {
	s.t.Helper()
	for _, name := range names {
		s.awaitBackup(name, velerov1.BackupPhaseCompleted)
	}
}

// awaitPosition waits until a backup has a position in the queue.
func (s *site) awaitPosition(name string, position int) {
	s.t.Helper()
	s.eventually("backup "+name+" waits", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := s.client.Get(ctx, s.key(name), &b)
		return b.Status.QueuePosition == position, err
	})
}

// requestCancel sets the annotation.
func (s *site) requestCancel(object client.Object, name string) {
	s.t.Helper()
	object.SetNamespace(s.namespace)
	object.SetName(name)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, velerov1.CancelAnnotation)
	require.NoError(s.t, s.client.Patch(s.t.Context(), object, client.RawPatch("application/merge-patch+json",
		[]byte(patch))))
}

// awaitGone waits until an object does not exist any more.
func (s *site) awaitGone(object client.Object, name string) {
	s.t.Helper()
	s.eventually(name+" is gone", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// requestDeletion requests the deletion of a backup under a name of its own.
func (s *site) requestDeletion(backup string) *velerov1.DeleteBackupRequest {
	s.t.Helper()
	request := &velerov1.DeleteBackupRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: backup + "-"},
		Spec:       velerov1.DeleteBackupRequestSpec{BackupName: backup},
	}
	require.NoError(s.t, s.client.Create(s.t.Context(), request))
	return request
}

func (s *site) backup(name string) *velerov1.Backup {
	s.t.Helper()
	var b velerov1.Backup
	require.NoError(s.t, s.client.Get(s.t.Context(), s.key(name), &b))
	return &b
}

// messagesOf returns the results of a backup as text.
func (s *site) resultsOf(backup string) string {
	s.t.Helper()
	var all any
	require.NoError(s.t, json.NewDecoder(s.unzipped("backups", backup, backup+"-results.gz")).Decode(&all))
	return fmt.Sprint(all)
}

// useShop creates the namespace "shop", which several tests use at the same time.
func (s *site) useShop() {
	s.t.Helper()
	err := s.client.Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(s.t, err)
	}
}

// workload creates a namespace with some objects to back up.
func (s *site) workload(configMaps int) string {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	require.NoError(s.t, s.client.Create(s.t.Context(), namespace))
	for i := range configMaps {
		require.NoError(s.t, s.client.Create(s.t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "item-" + string(rune('a'+i%26)) +
				strings.Repeat("x", i/26)},
			Data: map[string]string{"n": strings.Repeat("v", i)},
		}))
	}
	return namespace.Name
}

// few returns the resources of site.resources for tests that make very many backups. A backup of all of them reads some
// forty lists, which is most of its work.
func few() []string { return []string{"configmaps", "secrets"} }

// done reports whether a course is done.
func (s *site) done(ctx context.Context, id, course string) (bool, error) {
	switch course {
	case "backup":
		var b velerov1.Backup
		err := s.client.Get(ctx, s.key(id), &b)
		return b.Status.Phase.Terminal(), err
	case "restore":
		var r velerov1.Restore
		err := s.client.Get(ctx, s.key(id), &r)
		return r.Status.Phase.Terminal(), err
	default:
		var requests velerov1.DeleteBackupRequestList
		err := s.client.List(ctx, &requests, client.InNamespace(s.namespace))
		return len(requests.Items) == 0, err
	}
}

func (s *site) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

func (s *site) beginBackup(name string) {
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{s.shop}, IncludedResources: s.resources},
	}))
}

func (s *site) beginRestore(name string) {
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.RestoreSpec{BackupName: "whole", NamespaceMapping: map[string]string{s.shop: s.shop + "-copy"}},
	}))
}

func (s *site) beginDeletion(name string) {
	require.NoError(s.t, s.client.Create(s.t.Context(), &velerov1.DeleteBackupRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       velerov1.DeleteBackupRequestSpec{BackupName: name},
	}))
}

// wholeBackup creates the backup that all restores use.
func (s *site) wholeBackup(string) {
	err := s.client.Get(s.t.Context(), s.key("whole"), &velerov1.Backup{})
	if apierrors.IsNotFound(err) {
		s.beginBackup("whole")
	}
	s.awaitBackup("whole", velerov1.BackupPhaseCompleted)
}

func (s *site) awaitBackup(name string, want velerov1.BackupPhase) *velerov1.Backup {
	s.t.Helper()
	var b velerov1.Backup
	s.eventually(fmt.Sprintf("backup %s is %s", name, want), func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &b)
		if err == nil && b.Status.Phase.Terminal() && b.Status.Phase != want {
			require.Fail(s.t, "backup ended otherwise", "%s: %s %s %v", name, b.Status.Phase, b.Status.FailureReason,
				b.Status.ValidationErrors)
		}
		return b.Status.Phase == want, err
	})
	return &b
}

// checkBackup waits for the end of a backup and checks its files in the bucket.
func (s *site) checkBackup(name string) {
	s.t.Helper()
	var b velerov1.Backup
	s.eventually("backup "+name+" has ended and left nothing behind", func(ctx context.Context) (bool, error) {
		b = velerov1.Backup{}
		err := s.client.Get(ctx, s.key(name), &b)
		return b.Status.Phase.Terminal() && b.Annotations["cleat.dev/partial-data"] == "", err
	})
	require.NotNil(s.t, b.Status.CompletionTimestamp)
	require.Equal(s.t, velerov1.BackupPhaseCompleted, b.Status.Phase, "%s: %s", name, b.Status.FailureReason)
	s.requireWhole(&b)
}

// requireWhole requires that the bucket holds the complete backup.
func (s *site) requireWhole(b *velerov1.Backup) {
	s.t.Helper()
	dir := filepath.Join(s.bucketDir, "backups", b.Name)
	require.Equal(s.t, []string{"manifest.json.gz"}, s.artifacts(b.Name))
	s.requireDescribed(b.Name)
	metadata, err := os.ReadFile(filepath.Join(dir, "velero-backup.json"))
	require.NoError(s.t, err)
	var stored velerov1.Backup
	require.NoError(s.t, json.Unmarshal(metadata, &stored))
	require.Equal(s.t, b.Status, stored.Status, "the bucket tells the same as the cluster")
	require.Equal(s.t, b.Annotations["cleat.dev/claim"], stored.Annotations["cleat.dev/claim"],
		"the files are of the last attempt")
	require.Equal(s.t, "Backup", stored.Kind)
	file, err := os.Open(filepath.Join(dir, b.Name+".tar.gz"))
	require.NoError(s.t, err)
	defer file.Close()
	gz, err := gzip.NewReader(file)
	require.NoError(s.t, err)
	_, err = io.Copy(io.Discard, gz)
	require.NoError(s.t, err)
}

// checkRestore waits for the end of a restore and checks its files.
func (s *site) checkRestore(name string) {
	s.t.Helper()
	var r velerov1.Restore
	s.eventually("restore "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &r)
		return r.Status.Phase.Terminal(), err
	})
	require.NotNil(s.t, r.Status.CompletionTimestamp)
	require.Equal(s.t, velerov1.RestorePhaseCompleted, r.Status.Phase, "%s: %s", name, r.Status.FailureReason)
	require.Len(s.t, s.files("restores/"+name), 5)
}

// checkDeleted waits until a backup is deleted completely.
func (s *site) checkDeleted(name string) {
	s.t.Helper()
	s.eventually("backup "+name+" is deleted", func(ctx context.Context) (bool, error) {
		var request velerov1.DeleteBackupRequest
		err := s.client.Get(ctx, s.key(name), &request)
		if err == nil && request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed {
			require.Fail(s.t, "deletion failed", "%s: %s", name, strings.Join(request.Status.Errors, "; "))
		}
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	require.True(s.t, apierrors.IsNotFound(s.client.Get(s.t.Context(), s.key(name), &velerov1.Backup{})))
	require.True(s.t, apierrors.IsNotFound(s.client.Get(s.t.Context(), s.key(name), &velerov1.Restore{})))
	require.Empty(s.t, s.files("backups/"+name))
	require.Empty(s.t, s.files("restores/"+name))
}

// awaitWait waits until "describe" says that a backup or restore waits for something.
func (s *site) awaitWait(kind, name, what string) {
	s.t.Helper()
	s.eventually(kind+" "+name+" waits for "+what, func(context.Context) (bool, error) {
		described, _, err := s.run(kind, "describe", name)
		if err != nil {
			return false, err // it may not exist yet
		}
		_, waits, _ := strings.Cut(described, "\nWaits for:\n")
		return strings.Contains(waits, what) && strings.Contains(waits, ", since 20"), nil
	})
}

// requireNoWait requires that a backup or restore which has ended does not wait any more.
func (s *site) requireNoWait(kind, name string) {
	s.t.Helper()
	require.NotContains(s.t, s.must(kind, "describe", name), "Waits for:")
	require.NotContains(s.t, s.must(kind, "get", name, "-o", "yaml"), velerov1.WaitsAnnotation)
}

// awaitEndOfRestore waits for the end of a restore.
func (s *site) awaitEndOfRestore(name string) *velerov1.Restore {
	s.t.Helper()
	var r velerov1.Restore
	s.eventually("restore "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &r)
		return r.Status.Phase.Terminal(), err
	})
	return &r
}
