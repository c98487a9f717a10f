package security_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// maker returns a client that may only create some custom resources in the namespace of the site.
func maker(s *site.Site, resources ...string) client.Client {
	s.T.Helper()
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: "maker-of-" + resources[0]}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta,
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{"velero.io"}, Resources: resources, Verbs: []string{"create"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace,
				Name: meta.Name}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		},
	} {
		require.NoError(s.T, s.Client.Create(s.T.Context(), object))
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Cluster.AccountKubeconfig(s.T, s.Namespace, meta.Name))
	require.NoError(s.T, err)
	c, err := client.New(config, client.Options{Scheme: s.Client.Scheme()})
	require.NoError(s.T, err)
	return c
}

// serveDownloads starts a server that offers downloads, and returns their URL.
func serveDownloads(s *site.Site, args ...string) string {
	s.T.Helper()
	address := site.FreeAddress(s.T)
	base := "http://" + address + "/files"
	s.Serve(append(args, "--download-address", address, "--download-url", base)...)
	s.Available()
	return base
}

// get returns the reply to an HTTP request, which has to arrive before a client gives up.
func get(t *testing.T, address string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }() // only read from
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content)
}

// TestAcceptSecurity_Statuses has clients that may create custom resources and also write their statuses. The server
// works as if there were none.
func TestAcceptSecurity_Statuses(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	base := serveDownloads(s, "--concurrent-backups", "1")
	shop := s.Workload(2)
	s.Must("backup", "create", "b", "--include-namespaces", shop, "--wait")
	makesBackups, makesRestores := maker(s, "backups"), maker(s, "restores")
	far := metav1.NewTime(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.Namespace, Name: name} }

	t.Run("a download with a token of its maker", func(t *testing.T) { //nolint:paralleltest // one after the other, with one server
		chosen := base + "/downloads/mine?token=chosen"
		mine := &velerov1.DownloadRequest{
			ObjectMeta: meta("mine"), Spec: velerov1.DownloadRequestSpec{
				Target: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupContents, Name: "b"},
			},
			Status: velerov1.DownloadRequestStatus{Phase: velerov1.DownloadRequestPhaseProcessed, DownloadURL: chosen,
				Expiration: &far},
		}
		require.NoError(t, maker(s, "downloadrequests").Create(t.Context(), mine))
		status, _ := get(t, chosen)
		require.Equal(t, http.StatusForbidden, status)
		s.Eventually("the request is answered", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(mine), mine)
			return mine.Status.DownloadURL != chosen, err
		})
		require.Less(t, mine.Status.Expiration.Sub(mine.CreationTimestamp.Time), time.Hour)
		status, _ = get(t, mine.Status.DownloadURL)
		require.Equal(t, http.StatusOK, status)
		status, _ = get(t, chosen)
		require.Equal(t, http.StatusForbidden, status)
	})

	t.Run("backups that have begun", func(t *testing.T) { //nolint:paralleltest // one after the other, with one server
		foreign := filepath.Join(s.BucketDir, "backups", "foreign", "velero-backup.json")
		require.NoError(t, os.MkdirAll(filepath.Dir(foreign), 0o755))
		const stored = `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"foreign","uid":"of-another-cluster"},"status":{"phase":"Completed"}}`
		require.NoError(t, os.WriteFile(foreign, []byte(stored), 0o600))
		phases := []velerov1.BackupPhase{
			velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart, velerov1.BackupPhaseInProgress,
			velerov1.BackupPhaseWaitingForPluginOperations,
			velerov1.BackupPhaseFinalizing, velerov1.BackupPhaseDeleting,
		}
		create := func(name string, phase velerov1.BackupPhase) *velerov1.Backup {
			t.Helper()
			b := &velerov1.Backup{
				ObjectMeta: meta(name), Spec: velerov1.BackupSpec{StorageLocation: "default", IncludedNamespaces: []string{shop}},
				Status: velerov1.BackupStatus{
					Phase: phase, QueuePosition: -5, Errors: 7, ValidationErrors: []string{"made up"},
					BackupItemOperationsAttempted: 3,
					StartTimestamp:                &far, CompletionTimestamp: &far, Expiration: &far,
					Progress: &velerov1.BackupProgress{
						TotalItems: 9, ItemsBackedUp: 9,
					},
				},
			}
			b.Annotations = map[string]string{"cleat.dev/claim": "x", "cleat.dev/attempt": "9",
				"cleat.dev/occupied-namespaces": shop}
			require.NoError(t, makesBackups.Create(t.Context(), b))
			return b
		}
		ended := func(b *velerov1.Backup) {
			t.Helper()
			s.Eventually(b.Name+" has ended", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, client.ObjectKeyFromObject(b), b)
				return b.Status.Phase.Terminal(), err
			})
		}
		for _, phase := range phases {
			b := create("as-"+strings.ToLower(string(phase)), phase)
			ended(b)
			require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, "%s: %s %v", phase, b.Status.FailureReason,
				b.Status.ValidationErrors)
			require.Zero(t, b.Status.Errors+b.Status.QueuePosition+b.Status.BackupItemOperationsAttempted)
			require.Empty(t, b.Status.ValidationErrors)
			require.True(t, b.Status.StartTimestamp.Before(&far) && b.Status.CompletionTimestamp.Before(&far) &&
				b.Status.Expiration.Before(&far))
			require.Contains(t, s.Files("backups/"+b.Name), b.Name+".tar.gz", phase)
		}
		b := create("foreign", velerov1.BackupPhaseFinalizing)
		ended(b)
		require.Equal(t, velerov1.BackupPhaseFailed, b.Status.Phase)
		content, err := os.ReadFile(foreign)
		require.NoError(t, err)
		require.Equal(t, stored, string(content), "the backup of another cluster stays")
		require.Equal(t, []string{"velero-backup.json"}, s.Files("backups/foreign"))
	})

	t.Run("a backup that holds the slot for ever", func(t *testing.T) { //nolint:paralleltest // one after the other, with one server
		held := &velerov1.Backup{ObjectMeta: meta("held"), Spec: velerov1.BackupSpec{StorageLocation: "default"},
			Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseInProgress}}
		held.Finalizers = []string{"example.io/never"}
		require.NoError(t, s.Client.Create(t.Context(), held))
		require.NoError(t, s.Client.Delete(t.Context(), held))
		left := &velerov1.Backup{ObjectMeta: meta("left"), Spec: velerov1.BackupSpec{StorageLocation: "default"},
			Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseFailedValidation}}
		left.Finalizers = held.Finalizers
		require.NoError(t, s.Client.Create(t.Context(), left))
		require.NoError(t, s.Client.Delete(t.Context(), left))
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(left), left))
		left.Status.Phase = velerov1.BackupPhaseInProgress // in the state that a killed server has left
		require.NoError(t, s.Client.Update(t.Context(), left))
		s.Must("backup", "create", "after", "--include-namespaces", shop, "--wait")
	})

	t.Run("restores that have begun", func(t *testing.T) { //nolint:paralleltest // one after the other, with one server
		for _, phase := range []velerov1.RestorePhase{velerov1.RestorePhaseInProgress,
			velerov1.RestorePhaseWaitingForPluginOperations, velerov1.RestorePhaseFinalizing} {
			r := &velerov1.Restore{
				ObjectMeta: meta("as-" + strings.ToLower(string(phase))), Spec: velerov1.RestoreSpec{BackupName: "b"},
				Status: velerov1.RestoreStatus{Phase: phase, Errors: 7, RestoreItemOperationsAttempted: 3, StartTimestamp: &far,
					CompletionTimestamp: &far},
			}
			require.NoError(t, makesRestores.Create(t.Context(), r))
			s.Eventually(r.Name+" has ended", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, client.ObjectKeyFromObject(r), r)
				return r.Status.Phase.Terminal(), err
			})
			require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, "%s: %s %v", phase, r.Status.FailureReason,
				r.Status.ValidationErrors)
			require.Zero(t, r.Status.Errors+r.Status.RestoreItemOperationsAttempted)
			require.Contains(t, s.Files("restores/"+r.Name), "restore-"+r.Name+"-logs.gz", phase)
		}
	})

	t.Run("dry runs that have begun", func(t *testing.T) { //nolint:paralleltest // one after the other, with one server
		requested := func(name string) metav1.ObjectMeta {
			made := meta(name)
			made.Annotations = map[string]string{velerov1.DryRunAnnotation: velerov1.DryRunRequested, "cleat.dev/claim": "x",
				"cleat.dev/attempt": "9"}
			return made
		}
		ended := func(object client.Object) {
			t.Helper()
			s.Eventually(object.GetName()+" has ended", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
				return object.GetAnnotations()[velerov1.DryRunAnnotation] != velerov1.DryRunRequested, err
			})
			require.Equal(t, velerov1.DryRunDone, object.GetAnnotations()[velerov1.DryRunAnnotation])
			require.Equal(t, "1", object.GetAnnotations()["cleat.dev/attempt"])
		}
		for _, phase := range []velerov1.BackupPhase{velerov1.BackupPhaseInProgress, velerov1.BackupPhaseFailedValidation} {
			b := &velerov1.Backup{
				ObjectMeta: requested("dry-as-" + strings.ToLower(string(phase))), Spec: velerov1.BackupSpec{
					StorageLocation: "default", IncludedNamespaces: []string{shop},
				},
				Status: velerov1.BackupStatus{Phase: phase, QueuePosition: 3, FailureReason: "made up", StartTimestamp: &far,
					CompletionTimestamp: &far},
			}
			require.NoError(t, makesBackups.Create(t.Context(), b))
			ended(b)
			require.Equal(t, velerov1.BackupPhaseFailedValidation, b.Status.Phase)
			require.Zero(t, b.Status.QueuePosition)
			require.Empty(t, b.Status.FailureReason)
			require.True(t, b.Status.StartTimestamp.Before(&far) && b.Status.CompletionTimestamp.Before(&far))
		}
		for _, phase := range []velerov1.RestorePhase{velerov1.RestorePhaseInProgress,
			velerov1.RestorePhaseFailedValidation} {
			r := &velerov1.Restore{
				ObjectMeta: requested("dry-as-" + strings.ToLower(string(phase))), Spec: velerov1.RestoreSpec{BackupName: "b"},
				Status: velerov1.RestoreStatus{Phase: phase, FailureReason: "made up", StartTimestamp: &far,
					CompletionTimestamp: &far},
			}
			require.NoError(t, makesRestores.Create(t.Context(), r))
			ended(r)
			require.Equal(t, velerov1.RestorePhaseFailedValidation, r.Status.Phase)
			require.Empty(t, r.Status.FailureReason)
			require.Contains(t, r.Spec.ExcludedResources, "nodes", "the defaults of a restore")
			require.True(t, r.Status.StartTimestamp.Before(&far) && r.Status.CompletionTimestamp.Before(&far))
		}
	})

	t.Run("an expired copy of a backup that has not expired", func(t *testing.T) { //nolint:paralleltest // one after the other, with one server
		var b velerov1.Backup
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "b"}, &b))
		forged := b.DeepCopy()
		forged.ObjectMeta = meta("b")
		past := metav1.NewTime(time.Now().Add(-time.Hour))
		forged.Status.Expiration = &past
		// As if it were in the bucket of another cluster, and not synchronised yet.
		require.NoError(t, s.Client.Delete(t.Context(), &b))
		require.NoError(t, client.IgnoreAlreadyExists(s.Client.Create(t.Context(), forged)))
		s.Eventually("its deletion was refused", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(forged), forged)
			return forged.Annotations[velerov1.DeletionFailureAnnotation] != "", err
		})
		require.Contains(t, s.Files("backups/b"), "velero-backup.json")
	})
}

// TestAcceptSecurity_Names has custom resources and requests for downloads with invalid names. They fail at once, and
// delay no others.
func TestAcceptSecurity_Names(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	base := serveDownloads(s, "--concurrent-restores", "1", "--concurrent-backups", "1")
	shop := s.Workload(2)
	s.Must("backup", "create", "b", "--include-namespaces", shop, "--wait")
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.Namespace, Name: name} }

	for _, path := range []string{
		"/downloads/%25", "/downloads/a%2fb", "/downloads/..%2f..%2fsecrets", "/downloads/%00", "/downloads/" +
			strings.Repeat("a", 2000), "/downloads/mine?token=%25",
		"/downloads/mine?token=e30.e30", "/downloads/", "/x",
	} {
		status, _ := get(t, base+path)
		require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest}, status, path)
	}

	restores := map[string]velerov1.RestoreSpec{
		"backup": {BackupName: "a/b"}, "schedule": {ScheduleName: "../x"},
		"modifier": {BackupName: "b", ResourceModifier: &velerov1.TypedLocalObjectReference{Kind: "ConfigMap", Name: "a/b"}},
	}
	for name, spec := range restores {
		r := &velerov1.Restore{ObjectMeta: meta(name), Spec: spec}
		require.NoError(t, s.Client.Create(t.Context(), r))
		s.Eventually(name+" is refused", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(r), r)
			return r.Status.Phase == velerov1.RestorePhaseFailedValidation, err
		})
		require.Contains(t, strings.Join(r.Status.ValidationErrors, ""), "invalid name", name)
	}
	s.Must("restore", "create", "good", "--from-backup", "b", "--wait")

	bad := &velerov1.Backup{ObjectMeta: meta("location"), Spec: velerov1.BackupSpec{StorageLocation: "a/b"}}
	require.NoError(t, s.Client.Create(t.Context(), bad))
	s.Eventually("the backup is refused or waits aside", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(bad), bad)
		return bad.Status.Phase == velerov1.BackupPhaseFailedValidation, err
	})
	s.Must("backup", "create", "after", "--include-namespaces", shop, "--wait")

	deletion := &velerov1.DeleteBackupRequest{ObjectMeta: meta("deletion"),
		Spec: velerov1.DeleteBackupRequestSpec{BackupName: "a/b"}}
	download := &velerov1.DownloadRequest{ObjectMeta: meta("download"),
		Spec: velerov1.DownloadRequestSpec{Target: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupLog,
			Name: "a/b"}}}
	require.NoError(t, s.Client.Create(t.Context(), deletion))
	require.NoError(t, s.Client.Create(t.Context(), download))
	s.Eventually("the requests are answered", func(ctx context.Context) (bool, error) {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(deletion), deletion); err != nil {
			return false, err
		}
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(download), download)
		return len(deletion.Status.Errors) > 0 && download.Status.DownloadURL != "", err
	})
	require.Contains(t, deletion.Status.Errors[0], "invalid name")
	require.Contains(t, download.Status.DownloadURL, "invalid name")
}
