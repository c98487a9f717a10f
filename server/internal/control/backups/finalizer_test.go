package backups

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"path"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
// that it has waited for.
func waited(t *testing.T, c *controllertest.Cluster, op operation.Operation) (*inMemory, *velerov1.Backup) {
	t.Helper()
	op.ID, op.Phase, op.Item = "1", operation.Completed, framework.ResourceIdentifier{Resource: "pods", Name: "p"}
	b := controllertest.NewBackup("b", func(b *velerov1.Backup) {
		b.Spec.StorageLocation = "default"
		b.Status.Phase, b.Status.BackupItemOperationsAttempted = velerov1.BackupPhaseFinalizing, 1
		b.Annotations = map[string]string{velerov1.FilesAnnotation: "",
			velerov1.OperationsAnnotation: operation.Digest([]operation.Operation{op})}
	})
	c.Add(t, b)
	b = c.Backup(t, "b")
	objects := &inMemory{objects: map[string][]byte{"backups/b/b.tar.gz": []byte("archive")}}
	s := store.New(objects, "bucket", "")
	metadata, err := encodeBackup(b)
	require.NoError(t, err)
	require.NoError(t, s.PutBackupMetadata(t.Context(), "b", metadata))
	require.NoError(t, store.PutJSON(t.Context(), s.PutBackupItemOperations, "b",
		operation.NewFile(run.OwnerOfBackup(b), []operation.Operation{op})))
	require.NoError(t, c.AdvanceBackup(t.Context(), b, func(b *velerov1.Backup) error {
		objects.tally(t).Note(b)
		return nil
	}))
	return objects, b
}

// tally returns the sums of the files of backup b except for velero-backup.json.
func (b *inMemory) tally(t *testing.T) store.Tally {
	t.Helper()
	all := store.Tally{}
	for key, content := range b.objects {
		if name := path.Base(key); name != store.MetadataFile {
			all[name] = store.MetadataTally(content)[store.MetadataFile]
		}
	}
	return all
}

func settling(c *controllertest.Cluster) *Finalizer {
	return &Finalizer{Cluster: c.Cluster, Volumes: &volumes.Hub{Client: c.Client, Live: c.Live, Namespace: c.Namespace,
		Roles: func(action string, role framework.Role) bool {
			return action == "snapshots" && role == framework.RoleSnapshotObjects
		}},
		Logs: &run.Logs{Server: hclog.NewNullLogger(), Now: controllertest.Noon}, Log: hclog.NewNullLogger(),
		Now: controllertest.Noon}
}

// The sums of a final backup are those of what the server has stored: what somebody else has written meanwhile ends the
// attempt, and nothing is stored.
func TestFinalizerPublishesOnlyWhatItHasStored(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(objects map[string][]byte)
		want   string
	}{
		"other operations": {func(objects map[string][]byte) {
			objects["backups/b/b-itemoperations.json.gz"] = objects["backups/b/b.tar.gz"]
		}, "b-itemoperations.json.gz has 7 bytes"},
		"no operations": {func(objects map[string][]byte) { delete(objects, "backups/b/b-itemoperations.json.gz") },
			"b-itemoperations.json.gz is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := controllertest.NewCluster(t, nil)
			objects, b := waited(t, c, operation.Operation{})
			tt.change(objects.objects)
			before := maps.Clone(objects.objects)
			_, err := settling(c).settle(t.Context(), b, store.New(objects, "bucket", ""),
				&velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted})
			require.ErrorIs(t, err, store.ErrChanged)
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, before, objects.objects)
		})
	}
}

// behind is a cache that has not got the last write of a backup yet.
type behind struct {
	client.Client
	backup *velerov1.Backup
}

func (b behind) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if old, ok := into.(*velerov1.Backup); ok {
		b.backup.DeepCopyInto(old)
	}
	return nil
}

// A backup that has ended is not finalized again because the cache does not have its end yet.
func TestFinalizerKnowsTheEndBeforeTheCache(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	b := controllertest.NewBackup("b", func(b *velerov1.Backup) {
		b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseFinalizing
	})
	c.Add(t, controllertest.NewLocation("default"), b)
	require.NoError(t, c.AdvanceBackup(t.Context(), c.Backup(t, "b"), func(b *velerov1.Backup) error {
		b.Status.Phase = velerov1.BackupPhaseCompleted
		return nil
	}))
	r := settling(c)
	r.Stores = controllertest.ClosedStores{} // whose error it would return
	r.Cluster = &run.Cluster{Client: behind{c.Client, b}, Live: c.Live, Namespace: c.Namespace}
	_, err := r.Reconcile(t.Context(), c.Request("b"))
	require.NoError(t, err)
	require.Equal(t, velerov1.BackupPhaseCompleted, c.Backup(t, "b").Status.Phase)
}

// A server that was killed after it had stored the final backup, with snapshots that are left to the storage system then,
// has noted the sums of the last files before. A final backup of somebody else is replaced.
func TestFinalizerGoesOnAfterTheFinalBackup(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	objects, b := waited(t, c, operation.Operation{Action: "snapshots"})
	r := settling(c)
	settle := func() store.Tally {
		status := &velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted}
		files, err := r.settle(t.Context(), b, store.New(objects, "bucket", ""), status)
		require.NoError(t, err)
		require.Equal(t, velerov1.BackupPhaseCompleted, status.Phase)
		require.Equal(t, 1, status.CSIVolumeSnapshotsCompleted)
		require.True(t, files.IsFinal())
		return files
	}
	const key = "backups/b/velero-backup.json"
	first := settle()
	written := objects.objects[key]
	b = c.Backup(t, "b")
	require.Equal(t, first, settle(), "each attempt returns the same")

	var forged velerov1.Backup
	require.NoError(t, json.Unmarshal(written, &forged))
	forged.Annotations[velerov1.FilesAnnotation] = "b.tar.gz=of-somebody-else:8"
	forged.Status.Errors = 7
	objects.objects[key], _ = encodeBackup(&forged)
	b = c.Backup(t, "b")
	again := settle()
	require.Equal(t, store.MetadataTally(objects.objects[key])[store.MetadataFile], again[store.MetadataFile])
	require.Equal(t, first["b.tar.gz"], again["b.tar.gz"])
	require.NotContains(t, string(objects.objects[key]), "of-somebody-else")
	require.NotContains(t, string(objects.objects[key]), `"errors"`)
}
