package backups

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

func TestFinalizerEndsABackupWithoutLocation(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	in := func(phase velerov1.BackupPhase) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "gone", phase
			b.Status.CompletionTimestamp = run.Timestamp(controllertest.Noon().Add(-time.Hour))
			if phase == velerov1.BackupPhaseFailed {
				run.MarkPartialData(b)
			}
		}
	}
	c.Add(t, controllertest.NewBackup("good", in(velerov1.BackupPhaseFinalizing)),
		controllertest.NewBackup("bad", in(velerov1.BackupPhaseFailed)))
	r := &Finalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{},
		Logs: &run.Logs{Server: hclog.NewNullLogger(), Now: controllertest.Noon}, Log: hclog.NewNullLogger(),
		Now: controllertest.Noon}
	for _, name := range []string{"good", "bad"} {
		_, err := r.Reconcile(t.Context(), c.Request(name))
		require.NoError(t, err)
	}
	good := c.Backup(t, "good")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, good.Status.Phase)
	require.Contains(t, good.Status.FailureReason, "finalize the backup: the backup storage location does not exist: ")
	require.Equal(t, run.Timestamp(controllertest.Noon().Add(-time.Hour)).UTC(), good.Status.CompletionTimestamp.UTC(),
		"each attempt writes the same")
	require.False(t, run.HasPartialData(c.Backup(t, "bad")))
}

func TestFinalizerTriesAFailingStoreAgain(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"), controllertest.NewBackup("b", func(b *velerov1.Backup) {
		b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseFinalizing
	}))
	now := controllertest.Noon()
	r := &Finalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{},
		Logs: &run.Logs{Server: hclog.NewNullLogger(), Now: controllertest.Noon}, Log: hclog.NewNullLogger(),
		Now: func() time.Time { return now }}
	for range 3 { // however long it lasts
		_, err := r.Reconcile(t.Context(), c.Request("b"))
		require.ErrorContains(t, err, "the bucket is on fire")
		b := c.Backup(t, "b")
		require.Equal(t, velerov1.BackupPhaseFinalizing, b.Status.Phase)
		waits, err := velerov1.WaitsOf(b)
		require.NoError(t, err)
		require.Equal(t, "the object store to answer", waits.Oldest[0].For)
		require.Contains(t, waits.Oldest[0].Because, "the bucket is on fire")
		require.Equal(t, run.Timestamp(controllertest.Noon()).UTC(), waits.Oldest[0].Since.UTC(), "of the first failure")
		now = now.Add(time.Hour)
	}
}

// The files of a backup that is deleted before it was finalized are deleted as soon as the store works. A backup that
// may have been finalized keeps them.
func TestFinalizerDeletesTheFilesOfADeletedBackup(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"))
	for name, tt := range map[string]struct {
		phase   velerov1.BackupPhase
		partial bool
		unknown bool // the state at the deletion
		deletes bool
	}{
		"finalizing":         {phase: velerov1.BackupPhaseFinalizing, deletes: true},
		"partially":          {phase: velerov1.BackupPhaseFinalizingPartiallyFailed, deletes: true},
		"failed-and-dirty":   {phase: velerov1.BackupPhaseFailed, partial: true, deletes: true},
		"failed":             {phase: velerov1.BackupPhaseFailed},
		"completed":          {phase: velerov1.BackupPhaseCompleted},
		"finalizing-at-last": {phase: velerov1.BackupPhaseFinalizing, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Finalizer{Cluster: c.Cluster, Stores: controllertest.ClosedStores{},
				Logs: &run.Logs{Server: hclog.NewNullLogger(), Now: controllertest.Noon}, Log: hclog.NewNullLogger(),
				Now: controllertest.Noon}
			b := controllertest.NewBackup(name, controllertest.InPhase(tt.phase), func(b *velerov1.Backup) {
				b.Namespace, b.Spec.StorageLocation = c.Namespace, "default"
				if tt.partial {
					run.MarkPartialData(b)
				}
			})
			requested := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			defer requested.ShutDown()
			r.OnDelete().Delete(t.Context(), event.DeleteEvent{Object: b, DeleteStateUnknown: tt.unknown}, requested)
			for range 2 {
				_, err := r.Reconcile(t.Context(), c.Request(name))
				if !tt.deletes {
					require.NoError(t, err)
					require.Zero(t, requested.Len())
					continue
				}
				require.ErrorContains(t, err, "the bucket is on fire")
				require.Equal(t, 1, requested.Len())
			}
			b.Spec.StorageLocation = "none" // deleted, too
			_, err := r.Reconcile(t.Context(), c.Request(name))
			require.NoError(t, err)
		})
	}
}

// inMemory is an object store in memory.
type inMemory struct {
	objectstore.Store
	objects map[string][]byte
}

func (b *inMemory) PutObject(_ context.Context, _, key string, body io.Reader) (err error) {
	b.objects[key], err = io.ReadAll(body)
	return err
}

func (b *inMemory) GetObject(_ context.Context, _, key string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.objects[key])), nil
}

func (b *inMemory) ObjectExists(_ context.Context, _, key string) (bool, error) {
	_, found := b.objects[key]
	return found, nil
}

// waited returns a backup b whose operations have ended, as it is in the bucket and in the cluster. op is the operation
// that it has waited for. The archive was replaced since its sum was noted.
func waited(t *testing.T, op operation.Operation) (*inMemory, *velerov1.Backup) {
	t.Helper()
	b := controllertest.NewBackup("b", func(b *velerov1.Backup) {
		b.UID, b.Status.Phase, b.Status.BackupItemOperationsAttempted = "u", velerov1.BackupPhaseFinalizing, 1
		b.Annotations = map[string]string{velerov1.FilesAnnotation: "b.tar.gz=noted:5,b-gone.gz=noted:1,BackupLog=noted"}
	})
	op.ID, op.Phase, op.Item = "1", operation.Completed, framework.ResourceIdentifier{Resource: "pods", Name: "p"}
	objects := &inMemory{objects: map[string][]byte{"backups/b/b.tar.gz": []byte("replaced")}}
	s := store.New(objects, "bucket", "")
	metadata, err := encodeBackup(b)
	require.NoError(t, err)
	require.NoError(t, s.PutBackupMetadata(t.Context(), "b", metadata))
	require.NoError(t, store.PutJSON(t.Context(), s.PutBackupItemOperations, "b",
		operation.NewFile(run.OwnerOfBackup(b), []operation.Operation{op})))
	return objects, b
}

// A server that was killed may have replaced files after the operations. Their sums are those of what is stored then.
func TestSumsAfterOperationsAreThoseOfTheFiles(t *testing.T) {
	t.Parallel()
	again := operation.Operation{PostOperationItems: []framework.ResourceIdentifier{{Resource: "pods", Name: "p"}}}
	for name, tt := range map[string]struct {
		operation operation.Operation
		want      store.Tally // of those that were noted
	}{
		"items are read again": {again, store.Tally{
			"b.tar.gz":  {SHA256: store.MetadataTally([]byte("replaced"))[store.MetadataFile].SHA256, Size: 8},
			"BackupLog": {SHA256: "noted", Size: -1}}},
		"none are": {operation.Operation{}, store.Tally{"b.tar.gz": {SHA256: "noted", Size: 5},
			"b-gone.gz": {SHA256: "noted", Size: 1}, "BackupLog": {SHA256: "noted", Size: -1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, b := waited(t, tt.operation)
			recording, record := store.New(objects, "bucket", "").Recording("b")
			files, err := confirm(t.Context(), b, recording, []operation.Operation{tt.operation}, record)
			require.NoError(t, err)
			require.Contains(t, files, "b-itemoperations.json.gz", "it is written while the backup waits")
			delete(files, "b-itemoperations.json.gz")
			require.Equal(t, tt.want, files)
		})
	}
}

// A server that was killed after it had stored the final backup, with snapshots that are left to the storage system then,
// has not noted the sums of the last files: they are in the final backup.
func TestFinalizerGoesOnAfterTheFinalBackup(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	objects, b := waited(t, operation.Operation{Action: "snapshots"})
	b.Namespace = c.Namespace
	r := &Finalizer{Cluster: c.Cluster, Volumes: &volumes.Hub{Client: c.Client, Live: c.Live, Namespace: c.Namespace,
		Roles: func(action string, role framework.Role) bool {
			return action == "snapshots" && role == framework.RoleSnapshotObjects
		}},
		Logs: &run.Logs{Server: hclog.NewNullLogger(), Now: controllertest.Noon}, Log: hclog.NewNullLogger(),
		Now: controllertest.Noon}
	settle := func(archive string) store.Tally {
		b.Annotations[velerov1.FilesAnnotation] = "b.tar.gz=" + archive + ":8"
		status := &velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted}
		files, err := r.settle(t.Context(), b, store.New(objects, "bucket", ""), status)
		require.NoError(t, err)
		require.Equal(t, velerov1.BackupPhaseCompleted, status.Phase)
		require.Equal(t, 1, status.CSIVolumeSnapshotsCompleted)
		return files
	}
	first := settle("of-the-new-one")
	require.Equal(t, "of-the-new-one", first["b.tar.gz"].SHA256)
	require.True(t, first.IsFinal())
	var final velerov1.Backup
	require.NoError(t, json.Unmarshal(objects.objects["backups/b/velero-backup.json"], &final))
	require.Equal(t, first, settle("of-the-old-one"), "each attempt returns the same")
	require.True(t, slices.ContainsFunc(strings.Split(final.Annotations[velerov1.FilesAnnotation], ","),
		func(entry string) bool { return entry == "b.tar.gz=of-the-new-one:8" }))
}
