package gc

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// collector returns a controller whose worker does not wait, because no controller carries out its requests.
func collector(t *testing.T, c *controllertest.Cluster) (*Controller, *events.FakeRecorder) {
	t.Helper()
	recorder := events.NewFakeRecorder(10)
	return &Controller{Cluster: c.Cluster, Events: recorder, Log: hclog.NewNullLogger(), Now: time.Now,
		patience: time.Millisecond}, recorder
}

func (r *Controller) requests(t *testing.T) []velerov1.DeleteBackupRequest {
	t.Helper()
	var list velerov1.DeleteBackupRequestList
	require.NoError(t, r.List(t.Context(), &list, client.InNamespace(r.Namespace)))
	return list.Items
}

func expired(change ...func(*velerov1.Backup)) *velerov1.Backup {
	return controllertest.NewBackup("b", append([]func(*velerov1.Backup){func(b *velerov1.Backup) {
		b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseCompleted
		b.Status.Expiration = run.Timestamp(time.Now().Add(-time.Minute))
	}}, change...)...)
}

func TestExpiredBackupsAreCollected(t *testing.T) {
	t.Parallel()
	in := controllertest.InPhase
	at := func(location string) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) { b.Spec.StorageLocation = location }
	}
	restore := func(phase velerov1.RestorePhase, backup string) client.Object {
		return &velerov1.Restore{
			ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: velerov1.RestoreSpec{BackupName: backup},
			Status: velerov1.RestoreStatus{Phase: phase},
		}
	}
	for name, tt := range map[string]struct {
		backup *velerov1.Backup
		beside client.Object
		want   bool
		label  string
		event  string
	}{
		"expired":                    {backup: expired(), want: true},
		"partially failed":           {backup: expired(in("PartiallyFailed")), want: true},
		"failed":                     {backup: expired(in("Failed")), want: true},
		"whose deletion has failed":  {backup: expired(in("Deleting")), want: true},
		"never started, no location": {backup: expired(in("FailedValidation"), at("gone")), want: true},
		"not expired": {backup: expired(func(b *velerov1.Backup) {
			b.Status.Expiration = run.Timestamp(time.Now().Add(time.Hour))
		})},
		"without expiration": {backup: expired(func(b *velerov1.Backup) { b.Status.Expiration = nil })},
		"in progress":        {backup: expired(in("InProgress"))},
		"finalizing":         {backup: expired(in("Finalizing"))},
		"a dry run": {backup: expired(in("FailedValidation"), func(b *velerov1.Backup) {
			b.Annotations = map[string]string{velerov1.DryRunAnnotation: velerov1.DryRunDone}
		})},
		"in a location that does not exist": {backup: expired(at("gone")), label: "BSLNotFound"},
		"in a read-only location":           {backup: expired(at("closed")), label: "BSLReadOnly"},
		"in a location that is unavailable": {backup: expired(at("broken"))},
		"that a restore reads": {backup: expired(), beside: restore("InProgress", "b"),
			event: "it is deleted when restore r, which reads it, has ended"},
		"that a restore will read":           {backup: expired(), beside: restore("", "b"), event: "KeptForRestore"},
		"that a restore has read":            {backup: expired(), beside: restore("PartiallyFailed", "b"), want: true},
		"beside a restore of another backup": {backup: expired(), beside: restore("InProgress", "a"), want: true},
		"with a former failure": {backup: expired(func(b *velerov1.Backup) {
			b.Labels = map[string]string{velerov1.GCFailureLabel: "BSLReadOnly"}
		}), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := controllertest.NewCluster(t, nil)
			c.Add(t, tt.backup, controllertest.NewLocation("default"),
				controllertest.NewLocation("closed", func(l *velerov1.BackupStorageLocation) {
					l.Spec.AccessMode = velerov1.BackupStorageLocationAccessModeReadOnly
				}),
				controllertest.NewLocation("broken", func(l *velerov1.BackupStorageLocation) {
					l.Status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
				}))
			if tt.beside != nil {
				c.Add(t, tt.beside)
			}
			r, recorder := collector(t, c)
			_, err := r.Reconcile(t.Context(), c.Request("b"))
			require.NoError(t, err)
			require.Equal(t, tt.label, c.Backup(t, "b").Labels[velerov1.GCFailureLabel])
			if tt.event == "" {
				require.Empty(t, recorder.Events)
			} else {
				require.Contains(t, <-recorder.Events, tt.event)
			}
			requests := r.requests(t)
			if !tt.want {
				require.Empty(t, requests)
				return
			}
			require.Len(t, requests, 1)
			require.Regexp(t, "^b-", requests[0].Name)
			require.Equal(t, "b", requests[0].Spec.BackupName)
			require.Equal(t, map[string]string{
				velerov1.BackupNameLabel: "b", velerov1.BackupUIDLabel: string(tt.backup.UID),
			}, requests[0].Labels)

			_, err = r.Reconcile(t.Context(), c.Request("b"))
			require.NoError(t, err)
			require.Len(t, r.requests(t), 1, "its deletion is requested already")
			requests[0].Status.Phase = velerov1.DeleteBackupRequestPhaseProcessed
			require.NoError(t, c.Update(t.Context(), &requests[0]))
			_, err = r.Reconcile(t.Context(), c.Request("b"))
			require.NoError(t, err)
			require.Len(t, r.requests(t), 2, "the deletion has failed and is requested again")
		})
	}
}

func TestCollectorWaitsForTheDeletion(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := expired()
	c.Add(t, b, controllertest.NewLocation("default"))
	r, _ := collector(t, c)
	r.patience = time.Hour
	done := make(chan error)
	go func() {
		_, err := r.Reconcile(t.Context(), c.Request("b"))
		done <- err
	}()
	require.Eventually(t, func() bool { return len(r.requests(t)) == 1 }, 5*time.Minute, time.Millisecond)
	select {
	case <-done:
		require.Fail(t, "the worker must wait")
	case <-time.After(3 * poll):
	}
	require.NoError(t, c.Delete(t.Context(), b))
	require.NoError(t, <-done)
}
