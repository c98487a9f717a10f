package controller

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/controllertest"
	"github.com/cleat-dev/cleat/server/run"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

func TestABackupWhoseLocationIsGoneEndsAllTheSame(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	in := func(phase velerov1.BackupPhase) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "gone", phase
			if phase == velerov1.BackupPhaseFailed {
				run.MarkPartialData(b)
			}
		}
	}
	c.Add(t, controllertest.NewBackup("good", in(velerov1.BackupPhaseFinalizing)), controllertest.NewBackup("bad", in(velerov1.BackupPhaseFailed)))
	r := &BackupFinalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: controllertest.Noon}
	for _, name := range []string{"good", "bad"} {
		_, err := r.Reconcile(t.Context(), c.Request(name))
		require.NoError(t, err)
	}
	good := c.Backup(t, "good")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, good.Status.Phase)
	require.Contains(t, good.Status.FailureReason, "finalize the backup: the backup storage location does not exist: ")
	require.NotNil(t, good.Status.CompletionTimestamp)
	require.False(t, run.HasPartialData(c.Backup(t, "bad")))
}

func TestAStoreThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"), controllertest.NewBackup("b", func(b *velerov1.Backup) {
		b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseFinalizing
	}))
	r := &BackupFinalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: controllertest.Noon}
	_, err := r.Reconcile(t.Context(), c.Request("b"))
	require.ErrorContains(t, err, "the bucket is on fire")
	require.Equal(t, velerov1.BackupPhaseFinalizing, c.Backup(t, "b").Status.Phase)
}

func TestAStatusRequestIsAnsweredAndRemoved(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, &velerov1.ServerStatusRequest{ObjectMeta: metav1.ObjectMeta{
		Name: "q", Annotations: map[string]string{"mine": "stays", serverreport.PluginDetailsAnnotation: "p"},
	}})
	now := time.Now()
	r := &Statuses{Cluster: c.Cluster, Version: "v1", Now: func() time.Time { return now }, Plugins: func() []velerov1.PluginInfo {
		return []velerov1.PluginInfo{{Name: "example.io/p", Kind: "ObjectStore"}}
	}, Report: func(_ context.Context, details string) *serverreport.PluginReport {
		return &serverreport.PluginReport{Directory: "/plugins", Plugins: []serverreport.Plugin{{Name: "example.io/" + details, Status: serverreport.InUse}}}
	}, Policies: func() *serverreport.PolicyReport {
		return &serverreport.PolicyReport{ConcurrentBackups: 3, Policies: []serverreport.Policy{{Kind: "QueueAdmission", Plugin: "a.b/c", FailurePolicy: "Hold"}}}
	}}
	result, err := r.Reconcile(t.Context(), c.Request("q"))
	require.NoError(t, err)
	require.Equal(t, time.Minute, result.RequeueAfter)
	var q velerov1.ServerStatusRequest
	require.NoError(t, c.Get(t.Context(), c.Request("q").NamespacedName, &q))
	require.Equal(t, velerov1.ServerStatusRequestPhaseProcessed, q.Status.Phase)
	require.Equal(t, "v1", q.Status.ServerVersion)
	require.Equal(t, []velerov1.PluginInfo{{Name: "example.io/p", Kind: "ObjectStore"}}, q.Status.Plugins)
	require.Equal(t, "stays", q.Annotations["mine"])
	require.JSONEq(t, `{"directory":"/plugins","plugins":[{"name":"example.io/p","status":"InUse"}]}`, q.Annotations[serverreport.PluginsAnnotation])
	require.JSONEq(t, `{"concurrentBackups":3,"policies":[{"kind":"QueueAdmission","plugin":"a.b/c","failurePolicy":"Hold"}]}`, q.Annotations[serverreport.PoliciesAnnotation])

	now = now.Add(time.Minute)
	_, err = r.Reconcile(t.Context(), c.Request("q"))
	require.NoError(t, err)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("q").NamespacedName, &q)))
}

func TestADownloadRequestThatCannotBeAnsweredIsRemovedInTheEnd(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec:       velerov1.DownloadRequestSpec{Target: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindRestoreLog, Name: "none"}},
	})
	now := time.Now()
	r := &Downloads{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: func() time.Time { return now }}
	_, err := r.Reconcile(t.Context(), c.Request("d"))
	require.ErrorContains(t, err, "make the URL of RestoreLog none: get restore none")
	now = now.Add(11 * time.Minute)
	_, err = r.Reconcile(t.Context(), c.Request("d"))
	require.NoError(t, err)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("d").NamespacedName, &velerov1.DownloadRequest{})))
}

func TestADeletionThatIsRefusedSaysWhy(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	in := func(location string, phase velerov1.BackupPhase) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) { b.Spec.StorageLocation, b.Status.Phase = location, phase }
	}
	c.Add(t,
		controllertest.NewLocation("default"),
		controllertest.NewLocation("closed", func(l *velerov1.BackupStorageLocation) {
			l.Spec.AccessMode = velerov1.BackupStorageLocationAccessModeReadOnly
		}),
		controllertest.NewLocation("broken", func(l *velerov1.BackupStorageLocation) {
			l.Status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
		}),
		controllertest.NewBackup("running", in("default", velerov1.BackupPhaseInProgress)),
		controllertest.NewBackup("finalizing", in("default", velerov1.BackupPhaseFinalizing)),
		controllertest.NewBackup("finalizing-partial", in("default", velerov1.BackupPhaseFinalizingPartiallyFailed)),
		controllertest.NewBackup("waiting", in("default", velerov1.BackupPhaseWaitingForPluginOperations)),
		controllertest.NewBackup("waiting-partial", in("default", velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed)),
		controllertest.NewBackup("lost", in("gone", velerov1.BackupPhaseCompleted)),
		controllertest.NewBackup("read-only", in("closed", velerov1.BackupPhaseCompleted)),
		controllertest.NewBackup("unreachable", in("broken", velerov1.BackupPhaseCompleted)),
		controllertest.NewBackup("burning", in("default", velerov1.BackupPhaseCompleted)),
	)
	for backup, tt := range map[string]struct {
		want  string
		phase velerov1.BackupPhase
	}{
		"":           {"spec.backupName is required", ""},
		"none":       {"backup not found", ""},
		"running":    {"backup is still in progress", velerov1.BackupPhaseInProgress},
		"finalizing": {"backup is still in progress", velerov1.BackupPhaseFinalizing},
		"waiting":    {"backup is still in progress", velerov1.BackupPhaseWaitingForPluginOperations},

		"finalizing-partial": {"backup is still in progress", velerov1.BackupPhaseFinalizingPartiallyFailed},
		"waiting-partial":    {"backup is still in progress", velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed},
		"lost":               {"backup storage location gone not found", velerov1.BackupPhaseCompleted},
		"read-only":          {"backup storage location closed is currently in read-only mode", velerov1.BackupPhaseCompleted},
		"unreachable":        {"BackupStorageLocation broken is in Unavailable status", velerov1.BackupPhaseCompleted},
		"burning":            {"the bucket is on fire", velerov1.BackupPhaseDeleting},
	} {
		t.Run(backup, func(t *testing.T) {
			t.Parallel()
			request := &velerov1.DeleteBackupRequest{
				ObjectMeta: metav1.ObjectMeta{Name: "delete-" + backup + "x"},
				Spec:       velerov1.DeleteBackupRequestSpec{BackupName: backup},
			}
			c.Add(t, request)
			r := &Deletions{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: time.Now}
			_, err := r.Reconcile(t.Context(), c.Request(request.Name))
			require.NoError(t, err)
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(request), request))
			require.Equal(t, velerov1.DeleteBackupRequestPhaseProcessed, request.Status.Phase)
			require.Len(t, request.Status.Errors, 1)
			require.Contains(t, request.Status.Errors[0], tt.want)
			if tt.phase != "" {
				require.Equal(t, tt.phase, c.Backup(t, backup).Status.Phase)
			}

			r.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
			_, err = r.Reconcile(t.Context(), c.Request(request.Name))
			require.NoError(t, err)
			require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(request), request)))
		})
	}
}

func TestABackupIsNotDeletedWhileARestoreReadsIt(t *testing.T) {
	t.Parallel()
	for phase, refused := range map[velerov1.RestorePhase]bool{
		"": false, "New": false, "FailedValidation": false, "Completed": false, "PartiallyFailed": false, "Failed": false,
		"InProgress": true, "WaitingForPluginOperations": true, "Finalizing": true, "FinalizingPartiallyFailed": true,
	} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			c := controllertest.NewCluster(t, nil)
			c.Add(t,
				controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseFailedValidation)),
				&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: velerov1.RestoreSpec{BackupName: "b"}, Status: velerov1.RestoreStatus{Phase: phase}},
				&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: velerov1.RestoreSpec{BackupName: "a"}, Status: velerov1.RestoreStatus{Phase: "InProgress"}},
				&velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: velerov1.DeleteBackupRequestSpec{BackupName: "b"}})
			r := &Deletions{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: time.Now}
			_, err := r.Reconcile(t.Context(), c.Request("d"))
			require.NoError(t, err)
			require.NoError(t, c.Get(t.Context(), c.Request("other").NamespacedName, &velerov1.Restore{}))
			if !refused {
				require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("b").NamespacedName, &velerov1.Backup{})))
				return
			}
			var request velerov1.DeleteBackupRequest
			require.NoError(t, c.Get(t.Context(), c.Request("d").NamespacedName, &request))
			require.Equal(t, []string{"restore r from this backup is " + string(phase) + "; delete the backup when it has ended, or delete the restore first"}, request.Status.Errors)
			require.Equal(t, velerov1.BackupPhaseFailedValidation, c.Backup(t, "b").Status.Phase)
			require.NoError(t, c.Get(t.Context(), c.Request("r").NamespacedName, &velerov1.Restore{}))
		})
	}
}

func TestABackupThatNeverStartedIsDeletedWithoutItsLocation(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewBackup("b", func(b *velerov1.Backup) {
		b.Spec.StorageLocation, b.Status.Phase = "gone", velerov1.BackupPhaseFailedValidation
	}), &velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: velerov1.DeleteBackupRequestSpec{BackupName: "b"}})
	r := &Deletions{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: time.Now}
	_, err := r.Reconcile(t.Context(), c.Request("d"))
	require.NoError(t, err)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("b").NamespacedName, &velerov1.Backup{})))
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("d").NamespacedName, &velerov1.DeleteBackupRequest{})))
}
