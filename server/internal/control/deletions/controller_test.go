package deletions

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

func TestOwnerOfStoredData(t *testing.T) {
	t.Parallel()
	at := func(seconds int) *metav1.Time {
		return run.Timestamp(controllertest.Noon().Add(time.Duration(seconds) * time.Second))
	}
	backup := func(uid types.UID, created, started *metav1.Time) *velerov1.Backup {
		b := controllertest.NewBackup("b", func(b *velerov1.Backup) { b.UID, b.Status.StartTimestamp = uid, started })
		if created != nil {
			b.CreationTimestamp = *created
		}
		return b
	}
	refused := backup("two", at(1), at(1))
	refused.Status.FailureReason = store.ErrBackupExists.Error()
	longer := backup("two", at(1), at(1))
	longer.Status.CompletionTimestamp = at(2)
	stored := backup("one", at(0), at(1))
	for name, tt := range map[string]struct {
		backup *velerov1.Backup
		want   bool
	}{
		"the one that made it":                      {backup("one", at(0), at(1)), true},
		"a copy made in another cluster":            {backup("two", at(60), at(1)), true},
		"another of its name":                       {backup("two", at(30), at(31)), false},
		"another that started in the same second":   {backup("two", at(0), at(1)), false},
		"a copy made in the second of the start":    {backup("two", at(1), at(1)), true},
		"another that was created and started then": {refused, false},
		"another that ended later":                  {longer, false},
		"another that never started":                {backup("two", at(60), nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metadata, err := json.Marshal(stored)
			require.NoError(t, err)
			decoded, err := decodeStored("b", metadata)
			require.NoError(t, err)
			require.Equal(t, tt.want, run.Owns(tt.backup, decoded))
		})
	}
	_, err := decodeStored("b", []byte("<html>"))
	require.ErrorContains(t, err, "decode velero-backup.json of backup b, want the JSON of a Backup")
}

func TestBackupsThatMayHaveLoads(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		phase      velerov1.BackupPhase
		operations int
		want       bool
	}{
		"nothing is stored":            {"", 0, true},
		"completed without operations": {velerov1.BackupPhaseCompleted, 0, false},
		"completed with operations":    {velerov1.BackupPhaseCompleted, 1, true},
		"partially failed":             {velerov1.BackupPhasePartiallyFailed, 0, true},
		"failed":                       {velerov1.BackupPhaseFailed, 0, true},
		"not finalized":                {velerov1.BackupPhaseFinalizing, 0, true},
	} {
		stored := controllertest.NewBackup("b", func(b *velerov1.Backup) {
			b.Status.Phase, b.Status.BackupItemOperationsAttempted = tt.phase, tt.operations
		})
		require.Equal(t, tt.want, mayHaveLoads(stored), name)
	}
}

func TestRefusedDeletionHasAReason(t *testing.T) {
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
		controllertest.NewBackup("waiting-partial",
			in("default", velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed)),
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
		"read-only": {"backup storage location closed is currently in read-only mode",
			velerov1.BackupPhaseCompleted},
		"unreachable": {"BackupStorageLocation broken is in Unavailable status", velerov1.BackupPhaseCompleted},
		"burning":     {"the bucket is on fire", velerov1.BackupPhaseDeleting},
	} {
		t.Run(backup, func(t *testing.T) {
			t.Parallel()
			request := &velerov1.DeleteBackupRequest{
				ObjectMeta: metav1.ObjectMeta{Name: "delete-" + backup + "x"},
				Spec:       velerov1.DeleteBackupRequestSpec{BackupName: backup},
			}
			c.Add(t, request)
			r := &Controller{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(),
				Now: time.Now}
			_, err := r.Reconcile(t.Context(), c.Request(request.Name))
			require.NoError(t, err)
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(request), request))
			require.Equal(t, velerov1.DeleteBackupRequestPhaseProcessed, request.Status.Phase)
			require.Len(t, request.Status.Errors, 1)
			require.Contains(t, request.Status.Errors[0], tt.want)
			if tt.phase != "" {
				require.Equal(t, tt.phase, c.Backup(t, backup).Status.Phase)
			}
			if tt.phase == velerov1.BackupPhaseDeleting {
				require.Contains(t, c.Backup(t, backup).Annotations[velerov1.DeletionFailureAnnotation], tt.want)
			}

			r.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
			_, err = r.Reconcile(t.Context(), c.Request(request.Name))
			require.NoError(t, err)
			require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(request), request)))
		})
	}
}

func TestBegunDeletionWaitsForItsLocation(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t,
		controllertest.NewLocation("broken", func(l *velerov1.BackupStorageLocation) {
			l.Status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
		}),
		controllertest.NewBackup("half-gone", func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "broken", velerov1.BackupPhaseDeleting
		}),
	)
	request := &velerov1.DeleteBackupRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "begun"},
		Spec:       velerov1.DeleteBackupRequestSpec{BackupName: "half-gone"},
		Status:     velerov1.DeleteBackupRequestStatus{Phase: velerov1.DeleteBackupRequestPhaseInProgress},
	}
	c.Add(t, request)
	r := &Controller{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: time.Now}
	result, err := r.Reconcile(t.Context(), c.Request(request.Name))
	require.NoError(t, err)
	require.Equal(t, run.WaitDelay, result.RequeueAfter)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(request), request))
	require.Equal(t, velerov1.DeleteBackupRequestPhaseInProgress, request.Status.Phase)
	require.Len(t, request.Status.Errors, 1)
	require.Contains(t, request.Status.Errors[0], "waits: ")
	require.Contains(t, request.Status.Errors[0], "BackupStorageLocation broken is in Unavailable status")
}

// A backup whose deletion has failed can be restored, and is then not deleted by another request.
func TestBackupThatIsRestoredAfterAFailedDeletionIsNotDeleted(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t,
		controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseDeleting)),
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: velerov1.RestoreSpec{BackupName: "b"},
			Status: velerov1.RestoreStatus{Phase: "InProgress"}},
		&velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{Name: "d"},
			Spec: velerov1.DeleteBackupRequestSpec{BackupName: "b"}})
	r := &Controller{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: time.Now}
	_, err := r.Reconcile(t.Context(), c.Request("d"))
	require.NoError(t, err)
	var request velerov1.DeleteBackupRequest
	require.NoError(t, c.Get(t.Context(), c.Request("d").NamespacedName, &request))
	require.Contains(t, request.Status.Errors, "restore r from this backup is InProgress; delete the backup when it has "+
		"ended, or delete the restore first")
	require.NoError(t, c.Get(t.Context(), c.Request("r").NamespacedName, &velerov1.Restore{}))
}

func TestBackupInUseByARestoreIsNotDeleted(t *testing.T) {
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
				&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: velerov1.RestoreSpec{BackupName: "b"},
					Status: velerov1.RestoreStatus{Phase: phase}},
				&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: velerov1.RestoreSpec{BackupName: "a"},
					Status: velerov1.RestoreStatus{Phase: "InProgress"}},
				&velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{Name: "d"},
					Spec: velerov1.DeleteBackupRequestSpec{BackupName: "b"}})
			r := &Controller{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(),
				Now: time.Now}
			_, err := r.Reconcile(t.Context(), c.Request("d"))
			require.NoError(t, err)
			require.NoError(t, c.Get(t.Context(), c.Request("other").NamespacedName, &velerov1.Restore{}))
			if !refused {
				require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("b").NamespacedName, &velerov1.Backup{})))
				return
			}
			var request velerov1.DeleteBackupRequest
			require.NoError(t, c.Get(t.Context(), c.Request("d").NamespacedName, &request))
			require.Equal(t, []string{"restore r from this backup is " + string(phase) +
				"; delete the backup when it has ended, or delete the restore first"}, request.Status.Errors)
			require.Equal(t, velerov1.BackupPhaseFailedValidation, c.Backup(t, "b").Status.Phase)
			require.NoError(t, c.Get(t.Context(), c.Request("r").NamespacedName, &velerov1.Restore{}))
		})
	}
}

func TestBackupThatNeverStartedIsDeletedWithoutItsLocation(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewBackup("b", func(b *velerov1.Backup) {
		b.Spec.StorageLocation, b.Status.Phase = "gone", velerov1.BackupPhaseFailedValidation
	}), &velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: velerov1.DeleteBackupRequestSpec{
		BackupName: "b",
	}})
	r := &Controller{Cluster: c.Cluster, Stores: controllertest.ClosedStores{}, Log: hclog.NewNullLogger(), Now: time.Now}
	_, err := r.Reconcile(t.Context(), c.Request("d"))
	require.NoError(t, err)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("b").NamespacedName, &velerov1.Backup{})))
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), c.Request("d").NamespacedName,
		&velerov1.DeleteBackupRequest{})))
}
