package volumes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/versioning/objectstore"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// apiServer returns an API server with objects.
func apiServer(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, velerov1.AddToScheme(scheme))
	require.NoError(t, velerov2alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// bucket is an object store in memory that counts its calls by "get" or "put" and the last part of the key.
type bucket struct {
	objectstore.Store

	mu      sync.Mutex
	objects map[string][]byte
	calls   map[string]int
}

func newBucket() *bucket { return &bucket{objects: map[string][]byte{}, calls: map[string]int{}} }

func (b *bucket) count(call, key string) { b.calls[call+" "+key[strings.LastIndex(key, "/")+1:]]++ }

func (b *bucket) PutObject(_ context.Context, _, key string, body io.Reader) error {
	content, err := io.ReadAll(body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count("put", key)
	b.objects[key] = content
	return err
}

func (b *bucket) ObjectExists(_ context.Context, _, key string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, found := b.objects[key]
	return found, nil
}

func (b *bucket) GetObject(_ context.Context, _, key string) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count("get", key)
	content, found := b.objects[key]
	if !found {
		return nil, errors.New("no such key")
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// has makes a file of backup b.
func (b *bucket) has(t *testing.T, file string, content any) {
	t.Helper()
	encoded, err := store.EncodeJSON(content)
	require.NoError(t, err)
	require.NoError(t, b.PutObject(t.Context(), "bucket", "backups/b/"+file, encoded))
	clear(b.calls)
}

// disks is a storage system that records what is deleted. It does not delete a snapshot called "held".
type disks struct {
	volumesnapshotter.Snapshotter

	deleted []string
}

func locationOfDisks() *velerov1.VolumeSnapshotLocation {
	return &velerov1.VolumeSnapshotLocation{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "disks"}}
}

func (d *disks) OpenSnapshotter(
	context.Context, *velerov1.VolumeSnapshotLocation,
) (volumesnapshotter.Snapshotter, error) {
	return d, nil
}

func (d *disks) DeleteSnapshot(_ context.Context, id string) error {
	if id == "held" {
		return errors.New("a volume uses it")
	}
	d.deleted = append(d.deleted, id)
	return nil
}

// csiSnapshots records the calls about the CSI snapshots of a backup.
type csiSnapshots struct {
	VolumeSnapshots

	calls []string
}

func (c *csiSnapshots) Remove(_ context.Context, uid types.UID) error {
	c.calls = append(c.calls, "remove "+string(uid))
	return nil
}

func (c *csiSnapshots) Keep(_ context.Context, uid types.UID) error {
	c.calls = append(c.calls, "keep "+string(uid))
	return nil
}

func isNamedAfterRole(action string, role framework.Role) bool { return action == string(role) }

func newBackup() *velerov1.Backup {
	return &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "b", UID: "u"}}
}

// TestSettleCompletesTheFilesInOnePass has an operation of each kind, loads whose status an agent has signed, and
// others.
func TestSettleCompletesTheFilesInOnePass(t *testing.T) {
	t.Parallel()
	keys := loadkey.New(signing.Fixed(signing.NewKey([]byte("of tests"))))
	key, err := keys.Of(t.Context(), operation.OfBackup, "u")
	require.NoError(t, err)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "velero", Name: name, Labels: map[string]string{velerov1.BackupUIDLabel: "u"}}
	}
	status := func(phase velerov1.LoadPhase) velerov1.LoadStatus { return velerov1.LoadStatus{Phase: phase} }
	pod := func(name, volume string, phase velerov1.LoadPhase) *velerov1.PodVolumeBackup {
		load := &velerov1.PodVolumeBackup{ObjectMeta: meta(name)}
		load.Spec.Pod, load.Spec.Volume = velerov1.ObjectReference{Namespace: "shop", Name: "db"}, volume
		load.Status = velerov1.PodVolumeBackupStatus{LoadStatus: status(phase), SnapshotID: "of-" + volume}
		return load
	}
	upload := func(name, mover string) *velerov2alpha1.DataUpload {
		load := &velerov2alpha1.DataUpload{ObjectMeta: meta(name)}
		load.Spec.DataMover = mover
		load.Status.LoadStatus, load.Status.SnapshotID = status(velerov1.LoadPhaseCompleted), "of-"+name
		return load
	}
	whole, failed, forged := pod("whole", "data", velerov1.LoadPhaseCompleted), pod("failed", "logs",
		velerov1.LoadPhaseFailed), pod("forged", "cache", velerov1.LoadPhaseCompleted)
	moved, changed, vendors := upload("moved", "own"), upload("changed", "own"), upload("vendors", "vendor.io/mover")
	whole.Status.Message, failed.Status.Message, forged.Status.Message = "1 FIFOs: \"a\"\n2 links", "it failed", "forged"
	moved.Spec.SourceNamespace, moved.Spec.SourcePVC, moved.Status.Message = "shop", "claim", "3 sockets"
	vendors.Status.Message = "all went well"
	for _, load := range []metav1.Object{whole, failed, moved, changed, vendors} {
		require.NoError(t, key.Sign(load))
	}
	for _, load := range []metav1.Object{whole, failed, moved} {
		require.NoError(t, key.SignStatus(load))
	}
	b := newBucket()
	ofPod := func(volume string) VolumeInfo {
		pod := &PodInfo{PodNamespace: "shop", PodName: "db", VolumeName: volume}
		return VolumeInfo{BackupMethod: PodVolume, PodVolume: pod}
	}
	ofUpload := func(id string) VolumeInfo {
		return VolumeInfo{BackupMethod: CSI, SnapshotDataMoved: true, DataMovement: &MovementInfo{OperationID: id}}
	}
	b.has(t, "b-volumeinfo.json.gz", []VolumeInfo{
		ofPod("data"), ofPod("logs"), ofPod("cache"), ofUpload("moved"), ofUpload("changed"), ofUpload("vendors"),
		{BackupMethod: CSI, CSI: &CSIInfo{OperationID: "taken"}},
	})
	hub := &Hub{
		Live: apiServer(t, whole, failed, forged, moved, changed, vendors), Keys: keys, Roles: isNamedAfterRole,
		HasMover: func(name string) bool { return name == "own" },
	}
	op := func(role framework.Role, id string) operation.Operation {
		return operation.Operation{
			Action: string(role), ID: id, Status: operation.Status{Phase: operation.Completed},
			PostOperationItems: []framework.ResourceIdentifier{{Resource: "datauploads", Name: id}},
		}
	}
	objects := store.New(b, "bucket", "")
	lost, err := hub.Settle(t.Context(), newBackup(), objects, []operation.Operation{
		op(framework.RolePodVolumes, "pod"), op(framework.RoleSnapshotObjects, "taken"),
		op(framework.RoleClaimSnapshots, "moved"), op(framework.RoleClaimSnapshots, "changed"),
		op(framework.RoleClaimSnapshots, "vendors"),
	}, hclog.NewNullLogger())
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"shop": {
		` resource: /pods name: /db message: /volume data: 1 FIFOs: "a"`,
		` resource: /pods name: /db message: /volume data: 2 links`,
		` resource: /persistentvolumeclaims name: /claim message: /its volume: 3 sockets`,
	}}, lost.Namespaces)
	require.Equal(t, map[string]int{
		"get b-volumeinfo.json.gz": 1, "put b-volumeinfo.json.gz": 1, "put b-podvolumebackups.json.gz": 1,
	}, b.calls)

	infos, err := store.DecodeList[[]VolumeInfo](t.Context(), objects, velerov1.DownloadTargetKindBackupVolumeInfos, "b")
	require.NoError(t, err)
	var results [][2]string
	for _, info := range infos {
		handle := ""
		switch {
		case info.PodVolume != nil:
			handle = info.PodVolume.SnapshotHandle
		case info.DataMovement != nil:
			handle = info.DataMovement.SnapshotHandle
		}
		results = append(results, [2]string{string(info.Result), handle})
	}
	require.Equal(t, [][2]string{
		{"succeeded", "of-data"}, {"failed", ""}, {"failed", ""},
		{"succeeded", "of-moved"}, {"failed", ""}, {"succeeded", "of-vendors"}, {"succeeded", ""},
	}, results)
	var names []string
	for load, err := range store.PodVolumeBackups[velerov1.PodVolumeBackup](t.Context(), objects, "b") {
		require.NoError(t, err)
		names = append(names, load.Kind+" "+load.Name+" "+load.Status.SnapshotID)
	}
	require.Equal(t, []string{"PodVolumeBackup failed ", "PodVolumeBackup whole of-data"}, names)

	clear(b.calls)
	_, err = hub.Settle(t.Context(), newBackup(), objects, []operation.Operation{op("other", "x")}, hclog.NewNullLogger())
	require.NoError(t, err)
	require.Empty(t, b.calls, "there is nothing to settle")
}

// TestWhatABackupDoesNotHaveIsDeleted has runs with records of two snapshots and of CSI snapshots.
func TestWhatABackupDoesNotHaveIsDeleted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stored  *velerov1.Backup
		ended   bool
		deleted []string
		csi     []string
		left    int // records
	}{
		"the backup waits for its operations": {stored: newBackup(), deleted: []string{"lost"}, left: 1},
		"it is complete": {stored: inPhase(velerov1.BackupPhaseCompleted), ended: true, deleted: []string{"lost"},
			csi: []string{"keep u"}},
		"it has failed": {stored: inPhase(velerov1.BackupPhaseFailed), ended: true, deleted: []string{"lost"},
			csi: []string{"remove u"}},
		"it was never stored": {ended: true, deleted: []string{"kept", "lost"}, csi: []string{"remove u"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := apiServer(t, locationOfDisks())
			system, csi, b := &disks{}, &csiSnapshots{}, newBucket()
			hub := &Hub{
				Live: c, Namespace: "velero", Snapshotters: system, CSI: csi,
				Records: NewRecords(c, c, "velero", signing.Fixed(signing.NewKey([]byte("of tests"))), hclog.NewNullLogger()),
			}
			taker, err := hub.Begin(t.Context(), newBackup(), true, hclog.NewNullLogger())
			require.NoError(t, err)
			require.Empty(t, csi.calls, "none is on record")
			var snapshots []*Snapshot
			for _, id := range []string{"kept", "lost"} {
				s := &Snapshot{Spec: Spec{Location: "disks"}}
				record, err := hub.Records.Begin(t.Context(), newBackup(), s)
				require.NoError(t, err)
				require.NoError(t, record.Taken(t.Context(), id))
				s.Status.ProviderSnapshotID = id
				snapshots = append(snapshots, s)
			}
			require.NoError(t, taker.BeginCSI(t.Context()))
			if tt.stored != nil {
				metadata, err := json.Marshal(tt.stored)
				require.NoError(t, err)
				require.NoError(t, store.New(b, "bucket", "").PutBackupMetadata(t.Context(), "b", metadata))
				b.has(t, "b-volumesnapshots.json.gz", snapshots[:1])
			}
			left, err := hub.Leftovers(t.Context(), "u", hclog.NewNullLogger())
			require.NoError(t, err)
			open := func(context.Context) (*store.Store, error) { return store.New(b, "bucket", ""), nil }
			require.NoError(t, hub.HandOver(t.Context(), left, tt.ended, open, hclog.NewNullLogger()))
			require.ElementsMatch(t, tt.deleted, system.deleted)
			require.Equal(t, tt.csi, csi.calls)

			left, err = hub.Leftovers(t.Context(), "u", hclog.NewNullLogger())
			require.NoError(t, err)
			if tt.left == 0 {
				require.Nil(t, left)
				return
			}
			never := func(context.Context) (*store.Store, error) { return nil, errors.New("there is nothing to look for") }
			require.NoError(t, hub.HandOver(t.Context(), left, false, never, hclog.NewNullLogger()))
			_, err = hub.Begin(t.Context(), newBackup(), true, hclog.NewNullLogger())
			require.NoError(t, err)
			require.Equal(t, []string{"remove u"}, csi.calls, "another attempt begins without them")
		})
	}
}

func inPhase(phase velerov1.BackupPhase) *velerov1.Backup {
	b := newBackup()
	b.Status.Phase = phase
	return b
}

// digest proves files that have it.
type digest struct{ of string }

func (d digest) Holds(_ velerov1.DownloadTargetKind, digest string) bool { return d.of == digest }
func (d digest) Tags() map[string]string                                 { return map[string]string{"backup-uid": "u"} }

func TestRemoveDeletesWhatIsProven(t *testing.T) {
	t.Parallel()
	c := apiServer(t, locationOfDisks(), &velerov2alpha1.DataUpload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "velero", Name: "du", Labels: map[string]string{velerov1.BackupUIDLabel: "u"},
		},
		Spec:   velerov2alpha1.DataUploadSpec{DataMover: velerov1.ResticDataMover, SourceNamespace: "shop"},
		Status: velerov2alpha1.DataUploadStatus{SnapshotID: "moved"},
	})
	system, b, from := &disks{}, newBucket(), repositories{forgotten: map[string][]string{}}
	var snapshots []Snapshot
	for _, id := range []string{"snap-1", "held", "", "snap-2"} {
		snapshots = append(snapshots, Snapshot{Spec: Spec{Location: "disks", PersistentVolumeName: "pv-" + id},
			Status: Status{ProviderSnapshotID: id}})
	}
	b.has(t, "b-volumesnapshots.json.gz", snapshots)
	hub := &Hub{Live: c, Namespace: "velero", Snapshotters: system, Repositories: from}
	removal := Removal{Backup: newBackup(), Objects: store.New(b, "bucket", ""), Proof: digest{"another"}}
	done, err := hub.Remove(t.Context(), removal, hclog.NewNullLogger())
	require.NoError(t, err)
	require.Equal(t, Removed{Kept: []string{
		`snapshot "snap-1" of VolumeSnapshotLocation "disks"`, `snapshot "held" of VolumeSnapshotLocation "disks"`,
		`snapshot "snap-2" of VolumeSnapshotLocation "disks"`,
	}}, done)
	require.Empty(t, system.deleted)

	_, own, err := store.DecodeHashedList[[]Snapshot](t.Context(), removal.Objects,
		velerov1.DownloadTargetKindBackupVolumeSnapshots, "b")
	require.NoError(t, err)
	removal.Proof, removal.Loads = digest{own}, true
	done, err = hub.Remove(t.Context(), removal, hclog.NewNullLogger())
	require.NoError(t, err)
	require.Equal(t, []string{"disks/snap-1", "disks/held", "disks/snap-2", "shop/moved"}, done.Snapshots)
	require.Empty(t, done.Kept)
	require.Len(t, done.Failed, 1)
	require.EqualError(t, done.Failed[0], "error deleting snapshot held of persistent volume pv-held: a volume uses it")
	require.Equal(t, []string{"snap-1", "snap-2"}, system.deleted, "one failure does not keep the others")
	require.Equal(t, map[string][]string{"cleat.dev/restic /shop": {"moved"}}, from.forgotten)
}
