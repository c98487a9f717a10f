package volumes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/stockplugins"
)

// disks is a storage system that takes snapshots, behind a plugin like those of vendors.
type disks struct {
	*site.Site
	dir  string
	args []string // of the server
}

// newDisks returns a storage system with a VolumeSnapshotLocation that has credentials. settings is YAML that
// is added to the server's configuration.
func newDisks(s *site.Site, settings ...string) *disks {
	s.T.Helper()
	plugins := s.T.TempDir()
	_, err := stockplugins.Build(stockplugins.Disks, plugins)
	require.NoError(s.T, err)
	config := filepath.Join(s.T.TempDir(), "cleat.yaml")
	require.NoError(s.T, os.WriteFile(config, []byte("apiVersion: cleat.dev/v1\n"+strings.Join(settings, "\n")), 0o600))
	d := &disks{Site: s, dir: s.T.TempDir(), args: []string{"--plugin-dir", plugins, "--config", config}}
	for _, kind := range []string{"disks", "snapshots"} {
		require.NoError(s.T, os.Mkdir(filepath.Join(d.dir, kind), 0o755))
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "disks"}, StringData: map[string]string{
			"key": "open sesame",
		},
	}))
	d.location("disks")
	return d
}

// location creates a VolumeSnapshotLocation on the disks.
func (d *disks) location(name string) {
	d.T.Helper()
	require.NoError(d.T, d.Client.Create(d.T.Context(), &velerov1.VolumeSnapshotLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name},
		Spec: velerov1.VolumeSnapshotLocationSpec{
			Provider: "velero.io/stock-disks", Config: map[string]string{"dir": d.dir}, Credential: &velerov1.SecretKeySelector{
				Name: "disks", Key: "key",
			},
		},
	}))
}

// claim creates a volume on a disk, and a claim in the shop that is bound to it. It returns the name of the volume.
func (d *disks) claim(name string) string { return d.claimLike(name, nil, nil) }

// claimLike is claim for a volume and a claim that are changed before they are created, unless the functions are nil.
func (d *disks) claimLike(
	name string, changeVolume func(*corev1.PersistentVolume), changeClaim func(*corev1.PersistentVolumeClaim),
) string {
	d.T.Helper()
	size, modes := corev1.ResourceList{"storage": resource.MustParse("1Gi")}, []corev1.PersistentVolumeAccessMode{
		"ReadWriteOnce",
	}
	class := ""
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: d.Shop + "-" + name,
			Labels: map[string]string{"topology.kubernetes.io/zone": "zone-1"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: d.Shop, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "disks.example.com", VolumeHandle: name + ".disk",
			}},
		},
	}
	if changeVolume != nil {
		changeVolume(pv)
	}
	require.NoError(d.T, d.Client.Create(d.T.Context(), pv))
	d.T.Cleanup(func() { d.DropVolume(pv.Name) })
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Shop, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class, VolumeName: pv.Name, Resources: corev1.VolumeResourceRequirements{
				Requests: size,
			},
		},
	}
	if changeClaim != nil {
		changeClaim(claim)
	}
	require.NoError(d.T, d.Client.Create(d.T.Context(), claim))
	d.Eventually("the claim is bound", func(ctx context.Context) (bool, error) {
		err := d.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		return claim.Status.Phase == corev1.ClaimBound, err
	})
	return pv.Name
}

// list returns the names of the snapshots or disks, sorted.
func (d *disks) list(kind string) []string {
	d.T.Helper()
	entries, err := os.ReadDir(filepath.Join(d.dir, kind))
	require.NoError(d.T, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// backUp backs up the shop, and returns the backup when it has ended.
func (d *disks) backUp(name string, change func(*velerov1.BackupSpec)) *velerov1.Backup {
	d.T.Helper()
	b := &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name, Labels: map[string]string{"team": "red"}},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{d.Shop}},
	}
	if change != nil {
		change(&b.Spec)
	}
	require.NoError(d.T, d.Client.Create(d.T.Context(), b))
	return d.AwaitEnd(name)
}

// stored returns the files volumesnapshots and volumeinfo of a backup, and its errors as one text.
func (d *disks) stored(name string) (snapshots []volumes.Snapshot, infos []volumes.VolumeInfo, errs string) {
	d.T.Helper()
	dir := []string{"backups", name}
	found := site.ReadJSON[results.Results](d.T, d.Site, append(dir, name+"-results.gz")...)
	text, err := json.Marshal(found.Errors)
	require.NoError(d.T, err)
	return site.ReadJSON[[]volumes.Snapshot](d.T, d.Site, append(dir, name+"-volumesnapshots.json.gz")...),
		site.ReadJSON[[]volumes.VolumeInfo](d.T, d.Site, append(dir, name+"-volumeinfo.json.gz")...), string(text)
}

// noRecords waits until there are no records of snapshots.
func (d *disks) noRecords() {
	d.T.Helper()
	d.Eventually("the records of snapshots are gone", func(ctx context.Context) (bool, error) {
		var list corev1.ConfigMapList
		err := d.Client.List(ctx, &list, client.InNamespace(d.Namespace), client.HasLabels{volumes.OwnerLabel})
		return len(list.Items) == 0, err
	})
}

// TestAcceptVolumes_Snapshots takes snapshots of volumes with a stock-shaped plugin process, makes volumes from them,
// and deletes them with their backup. Snapshots that fail in any way are errors of their volumes.
func TestAcceptVolumes_Snapshots(t *testing.T) {
	t.Parallel()
	t.Run("there and back", snapshotsThereAndBack)
	t.Run("choices of the spec", snapshotsAsTheSpecSays)
	t.Run("a plugin that fails", snapshotsOfBrokenPlugins)
	t.Run("the server is killed", snapshotsOfKilledServers)
	t.Run("the server is killed in a restore", volumesOfKilledServers)
}

func snapshotsThereAndBack(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	d := newDisks(s)
	pv := d.claim("data")
	v := s.Serve(append(d.args, "--metrics-address", "127.0.0.1:0")...)
	s.Available()

	b := d.backUp("b", nil)
	snapshots, infos, errs := d.stored("b")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, errs)
	require.Equal(t, [2]int{1, 1}, [2]int{b.Status.VolumeSnapshotsAttempted, b.Status.VolumeSnapshotsCompleted})
	require.Zero(t, b.Status.Warnings)
	v.Measures(`velero_volume_snapshot_attempt_total{schedule=""} 1`,
		`velero_volume_snapshot_success_total{schedule=""} 1`, `velero_volume_snapshot_failure_total{schedule=""} 0`)
	require.Equal(t, []string{"disks"}, b.Spec.VolumeSnapshotLocations)
	taken := d.list("snapshots")
	require.Len(t, taken, 1)
	iops := int64(300)
	require.Equal(t, []volumes.Snapshot{{
		Spec: volumes.Spec{
			BackupName: "b", BackupUID: string(b.UID), Location: "disks", PersistentVolumeName: pv,
			ProviderVolumeID: "data.disk",
			VolumeType:       "ssd", VolumeAZ: "zone-1", VolumeIOPS: &iops,
		},
		Status: volumes.Status{ProviderSnapshotID: taken[0], Phase: volumes.Completed},
	}}, snapshots)
	require.Equal(t, []volumes.VolumeInfo{{
		PVCName: "data", PVCNamespace: s.Shop, PVName: pv, BackupMethod: volumes.Native, Result: volumes.Succeeded,
		Native: &volumes.NativeInfo{SnapshotHandle: taken[0], VolumeType: "ssd", VolumeAZ: "zone-1", IOPS: "300",
			Phase: volumes.Completed},
		PV: &volumes.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"topology.kubernetes.io/zone": "zone-1"}},
	}}, infos)
	var content struct{ Tags map[string]string }
	raw, err := os.ReadFile(filepath.Join(d.dir, "snapshots", taken[0]))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &content))
	require.Equal(t, "red", content.Tags["team"])
	require.Equal(t, []string{"b", pv}, []string{content.Tags["velero.io/backup"], content.Tags["velero.io/pv"]})
	d.noRecords()
	require.Contains(t, s.Must("backup", "describe", "b", "--details"),
		"Backup Volumes:\n  Velero-Native Snapshots:\n    "+pv+":\n      Snapshot ID:        "+taken[0])

	// Into another namespace, while the volume is in use: the copy gets another name.
	volume := func(name string) (pv corev1.PersistentVolume) {
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Name: name}, &pv))
		return pv
	}
	restore := func(name string, spec velerov1.RestoreSpec) *velerov1.Restore {
		spec.BackupName = "b"
		require.NoError(t, s.Client.Create(t.Context(),
			&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Spec: spec}))
		var done velerov1.Restore
		s.Eventually("the restore ends", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, s.Key(name), &done)
			return done.Status.Phase.Terminal(), err
		})
		require.Equal(t, velerov1.RestorePhaseCompleted, done.Status.Phase, "%+v",
			site.ReadJSON[results.Results](t, s, "restores", name, "restore-"+name+"-results.gz"))
		return &done
	}
	restore("copy", velerov1.RestoreSpec{NamespaceMapping: map[string]string{s.Shop: s.Shop + "-copy"}})
	var claim corev1.PersistentVolumeClaim
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Shop + "-copy", Name: "data"}, &claim))
	require.True(t, strings.HasPrefix(claim.Spec.VolumeName, "velero-clone-"), claim.Spec.VolumeName)
	t.Cleanup(func() { s.DropVolume(claim.Spec.VolumeName) })
	made := d.list("disks")
	require.Len(t, made, 1)
	require.Equal(t, []volumes.RestoreVolumeInfo{{
		PVCNamespace: s.Shop + "-copy", PVCName: "data", PVName: claim.Spec.VolumeName, RestoreMethod: volumes.Native,
		Native: &volumes.NativeInfo{SnapshotHandle: taken[0], VolumeType: "ssd", VolumeAZ: "zone-1", IOPS: "300"},
	}}, site.ReadJSON[[]volumes.RestoreVolumeInfo](t, s, "restores", "copy", "copy-volumeinfo.json.gz"))
	require.Contains(t, s.Must("restore", "describe", "copy", "--details"), "  "+claim.Spec.VolumeName+
		":\n    Snapshot:\n      Snapshot ID: "+taken[0]+"\n")
	copied := volume(claim.Spec.VolumeName)
	require.Equal(t, made[0], copied.Spec.CSI.VolumeHandle, "the volume id is that of the new disk")
	require.Equal(t, pv, copied.Annotations["velero.io/original-pv-name"])
	require.Equal(t, s.Shop+"-copy", copied.Spec.ClaimRef.Namespace)
	var like map[string]any
	raw, err = os.ReadFile(filepath.Join(d.dir, "disks", made[0]))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &like))
	require.Equal(t, []any{"ssd", "zone-1", 300.0}, []any{like["VolumeType"], like["VolumeAZ"], like["Iops"]})
	s.Eventually("the copy of the claim is bound", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(&claim), &claim)
		return claim.Status.Phase == corev1.ClaimBound, err
	})

	// In place, an existing volume is not made again, and a missing one is.
	again := restore("again", velerov1.RestoreSpec{})
	require.Len(t, d.list("disks"), 1)
	require.Equal(t, 1, again.Status.Warnings)
	require.Contains(t, site.ReadJSON[results.Results](t, s, "restores", "again", "restore-again-results.gz").
		Warnings.Cluster[0], "the data of persistent volume claim "+s.Shop+"/data is not restored: persistentvolumes/"+pv+
		" exists in the cluster")
	require.Empty(t, site.ReadJSON[[]volumes.RestoreVolumeInfo](t, s, "restores", "again", "again-volumeinfo.json.gz"))
	require.NoError(t, s.Client.Delete(t.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: "data"}}))
	s.DropVolume(pv)
	require.Zero(t, restore("unwanted", velerov1.RestoreSpec{RestorePVs: new(bool)}).Status.Warnings)
	require.Equal(t, "data.disk", volume(pv).Spec.CSI.VolumeHandle, "restorePVs is false")
	require.Len(t, d.list("disks"), 1)
	require.NoError(t, s.Client.Delete(t.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: "data"}}))
	s.DropVolume(pv)
	restore("gone", velerov1.RestoreSpec{})
	made = d.list("disks")
	require.Len(t, made, 2)
	require.Contains(t, made, volume(pv).Spec.CSI.VolumeHandle)

	// If snapshots cannot be deleted, the backup stays.
	lock := filepath.Join(d.dir, "locked")
	require.NoError(t, os.WriteFile(lock, nil, 0o600))
	request := s.RequestDeletion("b")
	s.Eventually("the deletion has failed", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed, err
	})
	require.Contains(t, request.Status.Errors[0], "error deleting snapshot "+taken[0]+" of persistent volume "+pv+
		": VolumeSnapshotter(velero.io/stock-disks): the disks are locked")
	require.NotEmpty(t, s.Files("backups/b"))
	require.NoError(t, os.Remove(lock))
	s.Must("backup", "delete", "b", "--confirm", "--wait")
	require.Empty(t, d.list("snapshots"))
	require.Empty(t, s.Files("backups/b"))
	audited := `audit: deletion of a backup: outcome=%s backup=b uid=` + string(b.UID) +
		` why=requested .* requestManager=%s .* restores=\[%s\] snapshots=\["disks/` + taken[0]
	// The server is the first of two managers that have written in the same second, because the API server sorts them.
	awaitMatch(v, fmt.Sprintf(audited, "failed", "(cleat|"+filepath.Base(os.Args[0])+")", `.*"copy".*`))
	awaitMatch(v, fmt.Sprintf(audited, "deleted", "cleat", "")) // the restores are gone by then
}

func snapshotsAsTheSpecSays(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	d := newDisks(s)
	d.location("other")
	ours := d.claim("ours")
	foreign := d.claimLike("foreign", func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "none.example.com" }, nil)
	s.Serve(append(d.args, "--default-volume-snapshot-locations", "velero.io/stock-disks:other")...)
	s.Available()
	no, yes := false, true

	b := d.backUp("default", nil)
	snapshots, infos, errs := d.stored("default")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, errs)
	require.Len(t, snapshots, 1)
	require.Equal(t, []string{ours, "other"}, []string{snapshots[0].Spec.PersistentVolumeName, snapshots[0].Spec.Location})
	require.Equal(t, 1, b.Status.Warnings, "nobody knows the other volume")
	require.Len(t, infos, 2)
	require.Equal(t, volumes.VolumeInfo{
		PVCName: "foreign", PVCNamespace: s.Shop, PVName: foreign, Skipped: true,
		SkippedReason: "volumeSnapshot: no applicable volumesnapshotter found;",
		PV:            infos[0].PV,
	}, infos[0])

	d.backUp("named", func(spec *velerov1.BackupSpec) {
		spec.VolumeSnapshotLocations, spec.SnapshotVolumes = []string{"disks"}, &yes
	})
	snapshots, _, _ = d.stored("named")
	require.Len(t, snapshots, 1)
	require.Equal(t, "disks", snapshots[0].Spec.Location)

	b = d.backUp("none", func(spec *velerov1.BackupSpec) { spec.SnapshotVolumes = &no })
	snapshots, infos, _ = d.stored("none")
	require.Empty(t, snapshots)
	require.Zero(t, b.Status.VolumeSnapshotsAttempted+b.Status.Warnings)
	require.True(t, infos[0].Skipped && infos[1].Skipped)

	b = d.backUp("two", func(spec *velerov1.BackupSpec) { spec.VolumeSnapshotLocations = []string{"disks", "other"} })
	require.Equal(t, velerov1.BackupPhaseFailedValidation, b.Status.Phase)
	require.Contains(t, b.Status.ValidationErrors[0],
		"more than one VolumeSnapshotLocation name specified for provider velero.io/stock-disks")

	// The data of volumes for which pods request file system backups is not in snapshots, as in Velero.
	byFiles := func(spec *velerov1.BackupSpec) { spec.DefaultVolumesToFsBackup = &yes }
	d.backUp("files-without-pods", byFiles)
	snapshots, _, _ = d.stored("files-without-pods")
	require.Len(t, snapshots, 1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: "db",
			Annotations: map[string]string{"backup.velero.io/backup-volumes": "x,data"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}, Volumes: []corev1.Volume{{
			Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: "ours",
			}},
		}}},
	}
	s.Eventually("the pod is created", func(ctx context.Context) (bool, error) { return true, s.Client.Create(ctx, pod) })
	for name, change := range map[string]func(*velerov1.BackupSpec){"files-by-default": byFiles,
		"files-by-annotation": nil} {
		b = d.backUp(name, change)
		snapshots, infos, _ = d.stored(name)
		require.Empty(t, snapshots, name)
		require.Equal(t, filesMissing, infos[1].SkippedReason, name)
		require.Positive(t, b.Status.Warnings, name)
	}
	pod.Annotations = map[string]string{"backup.velero.io/backup-volumes-excludes": "data"}
	require.NoError(t, s.Client.Update(t.Context(), pod))
	d.backUp("not-by-files", byFiles)
	snapshots, _, _ = d.stored("not-by-files")
	require.Len(t, snapshots, 1)
}

func snapshotsOfBrokenPlugins(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	d := newDisks(s, "plugins: {deadlines: {kinds: {VolumeSnapshotter: 10s}}}")
	good := d.claim("good")
	broken := map[string]string{ // by disk: the expected error
		"refused": "error taking snapshot of volume: VolumeSnapshotter(velero.io/stock-disks): the disk is busy",
		"hangs":   "10s", "dies": "VolumeSnapshotter(velero.io/stock-disks)",
		"nameless": "the new snapshot has no id", "unknown": "volume snapshot location disks: " +
			"VolumeSnapshotter(velero.io/stock-disks): the disks do not answer",
	}
	for name := range broken {
		d.claim(name)
	}
	s.Serve(d.args...)
	s.Available()
	b := d.backUp("b", nil)
	snapshots, infos, errs := d.stored("b")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase, errs)
	require.Equal(t, len(broken), b.Status.Errors, errs)
	for name, want := range broken {
		require.Contains(t, errs, want, name)
	}
	require.Equal(t, 3, strings.Count(errs, "whether the snapshot was taken is not known"), errs)
	require.Equal(t, [2]int{5, 1}, [2]int{b.Status.VolumeSnapshotsAttempted, b.Status.VolumeSnapshotsCompleted})
	require.Len(t, infos, 5)
	for _, one := range snapshots {
		require.Equal(t, one.Spec.PersistentVolumeName == good, one.Status.Phase == volumes.Completed, one)
	}
	require.Len(t, d.list("snapshots"), 1)
	d.noRecords()

	// Without its location, a snapshot is neither restored nor deleted.
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.VolumeSnapshotLocation{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "disks"}}))
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "r"},
		Spec:       velerov1.RestoreSpec{BackupName: "b", NamespaceMapping: map[string]string{s.Shop: s.Shop + "-copy"}},
	}))
	var done velerov1.Restore
	s.Eventually("the restore ends", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("r"), &done)
		return done.Status.Phase.Terminal(), err
	})
	found := site.ReadJSON[results.Results](t, s, "restores", "r", "restore-r-results.gz")
	require.Equal(t, velerov1.RestorePhasePartiallyFailed, done.Status.Phase)
	require.Len(t, found.Errors.Cluster, 1, "%+v", found)
	require.Contains(t, found.Errors.Cluster[0], "volume snapshot location "+s.Namespace+"/disks does not exist")
	_, stderr, err := s.Run("backup", "delete", "b", "--confirm", "--wait")
	require.Error(t, err)
	require.Contains(t, stderr, "volume snapshot location "+s.Namespace+"/disks does not exist")
}

// snapshotsOfKilledServers kills the server while it takes the second of two snapshots. The next server takes both
// again, and deletes the first one of the dead attempt.
func snapshotsOfKilledServers(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	d := newDisks(s)
	d.claim("a-first")
	d.claim("held")
	hold := filepath.Join(d.dir, "hold")
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	killed := s.Serve(d.args...)
	s.Available()
	s.BeginBackupOf("b", s.Shop)
	s.Eventually("both snapshots are requested",
		func(context.Context) (bool, error) { return len(d.list("snapshots")) == 2, nil })
	killed.Kill()
	former := d.list("snapshots")
	require.NoError(t, os.Remove(hold))
	server := s.Serve(d.args...)
	b := s.AwaitEnd("b")
	snapshots, _, errs := d.stored("b")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, errs)
	require.Len(t, snapshots, 2)
	d.noRecords()
	want := []string{snapshots[0].Status.ProviderSnapshotID, snapshots[1].Status.ProviderSnapshotID}
	for _, id := range former {
		require.NotContains(t, want, id, "the backup has the snapshots of its last attempt")
		if strings.Contains(id, "held") { // its ID is not recorded
			want = append(want, id)
		}
	}
	slices.Sort(want)
	require.Equal(t, want, d.list("snapshots"))
	server.AwaitLine("a server was stopped while it requested a snapshot", "velero.io/backup=b, velero.io/pv="+s.Shop+
		"-held")

	// Snapshots of a backup that is deleted during its run are deleted as well.
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	before := len(d.list("snapshots"))
	s.BeginBackupOf("gone", s.Shop)
	s.Eventually("both snapshots are requested",
		func(context.Context) (bool, error) { return len(d.list("snapshots")) == before+2, nil })
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "gone"}}))
	require.NoError(t, os.Remove(hold))
	d.noRecords()
	s.Eventually("its snapshots are deleted", func(context.Context) (bool, error) {
		left := d.list("snapshots")
		return len(left) <= before+1 &&
			len(slices.DeleteFunc(left, func(id string) bool { return !strings.Contains(id, "a-first") })) == 1, nil
	})
}

// volumesOfKilledServers kills the server after it has made a volume from a snapshot, and before any object refers to
// the volume. The next server uses it.
func volumesOfKilledServers(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	d := newDisks(s)
	pv := d.claim("data")
	killed := s.Serve(d.args...)
	s.Available()
	require.Equal(t, velerov1.BackupPhaseCompleted, d.backUp("b", nil).Status.Phase)
	require.NoError(t, s.Client.Delete(t.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: "data"}}))
	s.DropVolume(pv)
	hold := filepath.Join(d.dir, "hold-references")
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "r"}, Spec: velerov1.RestoreSpec{BackupName: "b"},
	}))
	var records corev1.ConfigMapList
	recorded := func(ctx context.Context) error {
		return s.Client.List(ctx, &records, client.InNamespace(s.Namespace), client.HasLabels{volumes.RestoreLabel})
	}
	s.Eventually("the volume is on record", func(ctx context.Context) (bool, error) {
		err := recorded(ctx)
		return len(records.Items) == 1 && records.Items[0].Data["volumeID"] != "", err
	})
	killed.Kill()
	require.NoError(t, os.Remove(hold))
	s.Serve(d.args...)
	var done velerov1.Restore
	s.Eventually("the restore ends", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("r"), &done)
		return done.Status.Phase.Terminal(), err
	})
	require.Equal(t, velerov1.RestorePhaseCompleted, done.Status.Phase, "%+v",
		site.ReadJSON[results.Results](t, s, "restores", "r", "restore-r-results.gz"))
	var restored corev1.PersistentVolume
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Name: pv}, &restored))
	require.Equal(t, d.list("disks"), []string{restored.Spec.CSI.VolumeHandle}, "one volume was made")
	infos := site.ReadJSON[[]volumes.RestoreVolumeInfo](t, s, "restores", "r", "r-volumeinfo.json.gz")
	require.Equal(t, pv, infos[0].PVName)
	require.NoError(t, recorded(t.Context()))
	require.Empty(t, records.Items)
}

// awaitMatch waits until the log of the server matches a regular expression.
func awaitMatch(v *site.Server, pattern string) {
	v.Site.T.Helper()
	wanted := regexp.MustCompile(pattern)
	v.Site.Eventually("the server writes "+pattern,
		func(context.Context) (bool, error) { return wanted.MatchString(v.Log.String()), nil })
}
