package main_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/internal/engine/snapshot"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/csidriver"
)

// driver is the CSI driver of the control plane storage, with a VolumeSnapshotClass "chosen" by label and others by
// name.
var driver struct {
	csidriver.Driver
	once sync.Once
	err  error
}

// volumes is a site on the control plane with the volumes of a CSI driver.
type volumes struct{ *site }

func newVolumes(t *testing.T) *volumes {
	t.Helper()
	s := newSiteIn(t, storage.get(t), "cleat.dev/file")
	scheme, err := app.Scheme()
	require.NoError(t, err)
	require.NoError(t, snapshotv1.AddToScheme(scheme))
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	s.client, err = client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	driver.once.Do(func() {
		driver.Dir = filepath.Join(os.TempDir(), "csi")
		if _, driver.err = driver.Serve(storage.Options.CSISocket); driver.err == nil {
			driver.err = csidriver.Install(context.WithoutCancel(t.Context()), s.cluster, s.client)
		}
	})
	require.NoError(t, driver.err)
	v := &volumes{s}
	s.shop = s.workload(1)
	v.class("chosen", nil)
	return v
}

// class creates a VolumeSnapshotClass with a name of its own, unless it is that with the label.
func (v *volumes) class(name string, parameters map[string]string) string {
	v.t.Helper()
	class := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: csidriver.Name,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete, Parameters: parameters,
	}
	if name == "chosen" {
		class.Labels = map[string]string{"velero.io/csi-volumesnapshot-class": "true"}
	} else {
		class.Name = v.shop + "-" + name
	}
	v.eventually("the class is created", func(ctx context.Context) (bool, error) {
		// the definition may just have been installed
		return true, client.IgnoreAlreadyExists(v.client.Create(ctx, class))
	})
	return class.Name
}

// claim creates a claim in the shop with a volume of the driver that has some bytes. class is that of its snapshots, ""
// to leave it open.
func (v *volumes) claim(name, class string) {
	v.t.Helper()
	size, storageClass := corev1.ResourceList{"storage": resource.MustParse("1Gi")}, csidriver.StorageClass
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.shop, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: &storageClass,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	if class != "" {
		claim.Annotations = map[string]string{"velero.io/csi-volumesnapshot-class": class}
	}
	require.NoError(v.t, v.client.Create(v.t.Context(), claim))
	v.write(v.shop, name, "before")
}

// dir returns the directory of the volume of a claim, when it is bound.
func (v *volumes) dir(namespace, name string) string {
	v.t.Helper()
	return driver.Volume(v.volume(namespace, name).Spec.CSI.VolumeHandle)
}

// volume returns the volume of a claim, when it is bound.
func (v *volumes) volume(namespace, name string) *corev1.PersistentVolume {
	v.t.Helper()
	var claim corev1.PersistentVolumeClaim
	v.eventually("claim "+namespace+"/"+name+" is bound", func(ctx context.Context) (bool, error) {
		err := v.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &claim)
		return claim.Status.Phase == corev1.ClaimBound, err
	})
	var pv corev1.PersistentVolume
	require.NoError(v.t, v.client.Get(v.t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, &pv))
	return &pv
}

func (v *volumes) write(namespace, name, content string) {
	v.t.Helper()
	require.NoError(v.t, os.WriteFile(filepath.Join(v.dir(namespace, name), "data"), []byte(content), 0o600))
}

// content returns the bytes in the volume of a claim, "" if it is empty.
func (v *volumes) content(namespace, name string) string {
	v.t.Helper()
	data, err := os.ReadFile(filepath.Join(v.dir(namespace, name), "data"))
	if !os.IsNotExist(err) {
		require.NoError(v.t, err)
	}
	return string(data)
}

// begin creates a backup of the shop.
func (v *volumes) begin(name string, change func(*velerov1.Backup)) {
	v.t.Helper()
	b := &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: name}, Spec: velerov1.BackupSpec{
			IncludedNamespaces: []string{v.shop},
		},
	}
	if change != nil {
		change(b)
	}
	require.NoError(v.t, v.client.Create(v.t.Context(), b))
}

// errors returns the errors of a backup as one text.
func (v *volumes) errors(backup string) string {
	v.t.Helper()
	text, err := json.Marshal(readJSON[results.Results](v.t, v.site, "backups", backup, backup+"-results.gz"))
	require.NoError(v.t, err)
	return string(text)
}

// infos returns the file volumeinfo of a backup.
func (v *volumes) infos(backup string) []snapshot.VolumeInfo {
	v.t.Helper()
	return readJSON[[]snapshot.VolumeInfo](v.t, v.site, "backups", backup, backup+"-volumeinfo.json.gz")
}

// taken returns the snapshots at the storage system of volumes of the shop, sorted.
func (v *volumes) taken() []string {
	v.t.Helper()
	ids, err := driver.SnapshotsOf(func(volume string) bool {
		var list corev1.PersistentVolumeList
		require.NoError(v.t, v.client.List(v.t.Context(), &list))
		return slices.ContainsFunc(list.Items, func(pv corev1.PersistentVolume) bool {
			return pv.Spec.CSI != nil && pv.Spec.CSI.VolumeHandle == volume && pv.Spec.ClaimRef.Namespace == v.shop
		})
	})
	require.NoError(v.t, err)
	return ids
}

// leavesNothing waits until the cluster has no snapshots of the shop and its copies, and no records of any.
func (v *volumes) leavesNothing() {
	v.t.Helper()
	ofShop := func(namespace string) bool { return strings.HasPrefix(namespace, v.shop) }
	v.eventually("no objects of snapshots are left", func(ctx context.Context) (bool, error) {
		var snapshots snapshotv1.VolumeSnapshotList
		var contents snapshotv1.VolumeSnapshotContentList
		var records corev1.ConfigMapList
		if err := v.client.List(ctx, &snapshots); err != nil {
			return false, err
		}
		if err := v.client.List(ctx, &contents); err != nil {
			return false, err
		}
		err := v.client.List(ctx, &records, client.InNamespace(v.namespace), client.HasLabels{snapshot.OwnerLabel})
		left := slices.ContainsFunc(contents.Items,
			func(c snapshotv1.VolumeSnapshotContent) bool { return ofShop(c.Spec.VolumeSnapshotRef.Namespace) }) ||
			slices.ContainsFunc(snapshots.Items, func(vs snapshotv1.VolumeSnapshot) bool { return ofShop(vs.Namespace) })
		return !left && len(records.Items) == 0, err
	})
}

// restore restores a backup, into another namespace unless that is "", and returns the restore with its results.
func (v *volumes) restore(name, backup, into string, change func(*velerov1.RestoreSpec)) (*velerov1.Restore, string) {
	v.t.Helper()
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: name},
		Spec: velerov1.RestoreSpec{BackupName: backup}}
	if into != "" {
		r.Spec.NamespaceMapping = map[string]string{v.shop: into}
	}
	if change != nil {
		change(&r.Spec)
	}
	require.NoError(v.t, v.client.Create(v.t.Context(), r))
	v.eventually("restore "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := v.client.Get(ctx, v.key(name), r)
		return r.Status.Phase.Terminal(), err
	})
	text, err := json.Marshal(readJSON[results.Results](v.t, v.site, "restores", name, "restore-"+name+"-results.gz"))
	require.NoError(v.t, err)
	return r, string(text)
}

// TestAcceptVolumes_CSISnapshots takes snapshots of the volumes of a CSI driver with the real controllers of snapshots,
// binds restored claims to them, and deletes them with their backup. Snapshots that fail, or that nobody waits for,
// leave nothing behind.
func TestAcceptVolumes_CSISnapshots(t *testing.T) {
	t.Parallel()
	t.Run("there and back", csiThereAndBack)
	t.Run("choices", csiAsChosen)
	t.Run("snapshots that fail", csiFailures)
	t.Run("the server is killed", csiOfKilledServers)
	t.Run("least privilege", csiOfLeastPrivilege)
}

// csiOfLeastPrivilege takes a snapshot as a server that is no cluster admin, and restores and deletes it.
func csiOfLeastPrivilege(t *testing.T) {
	t.Parallel()
	v := newVolumes(t)
	v.claim("data", "")
	pv := v.volume(v.shop, "data")
	pv.Labels = map[string]string{"tier": "db"}
	require.NoError(t, v.client.Update(t.Context(), pv))
	v.must("install", "--no-default-backup-location", "--no-secret", "--rbac", "least", "--rbac-namespaces", v.shop,
		"--features", "EnableCSI")
	v.serverKubeconfig = v.kubeconfigOf("velero")
	server := v.serve("--features", "EnableCSI")
	v.available()
	v.begin("b", nil)
	b := v.awaitEnd("b")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors("b"))
	require.Len(t, v.taken(), 1)
	v.write(v.shop, "data", "after")
	v.drop("data")
	r, text := v.restore("r", "b", "", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Zero(t, r.Status.Warnings, text)
	require.Equal(t, "before", v.content(v.shop, "data"))
	require.Equal(t, "db", v.volume(v.shop, "data").Labels["tier"])
	v.leavesNothing()
	v.must("backup", "delete", "b", "--confirm", "--wait")
	require.Empty(t, v.taken())
	requireRights(t, server.log)
}

func csiThereAndBack(t *testing.T) {
	t.Parallel()
	v := newVolumes(t)
	v.claim("data", "")
	server := v.serve("--features", "EnableCSI")
	v.available()
	pv := v.volume(v.shop, "data")
	pv.Labels, pv.Spec.PersistentVolumeReclaimPolicy = map[string]string{"tier": "db"},
		corev1.PersistentVolumeReclaimRetain
	require.NoError(t, v.client.Update(t.Context(), pv))

	v.begin("b", nil)
	b := v.awaitEnd("b")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors("b"))
	require.Equal(t, [4]int{1, 1, 1, 0}, [4]int{
		b.Status.CSIVolumeSnapshotsAttempted, b.Status.CSIVolumeSnapshotsCompleted, b.Status.BackupItemOperationsCompleted,
		b.Status.Warnings,
	}, v.errors("b"))
	taken := v.taken()
	require.Len(t, taken, 1)
	v.leavesNothing()

	// The files that Velero writes.
	snapshots := readJSON[[]snapshotv1.VolumeSnapshot](t, v.site, "backups", "b", "b-csi-volumesnapshots.json.gz")
	contents := readJSON[[]snapshotv1.VolumeSnapshotContent](t, v.site, "backups", "b",
		"b-csi-volumesnapshotcontents.json.gz")
	classes := readJSON[[]snapshotv1.VolumeSnapshotClass](t, v.site, "backups", "b", "b-csi-volumesnapshotclasses.json.gz")
	require.Equal(t, [3]int{1, 1, 1}, [3]int{len(snapshots), len(contents), len(classes)})
	require.Regexp(t, `^velero-data-.{5}$`, snapshots[0].Name)
	require.Equal(t, map[string]string{"app": "data", "velero.io/backup-name": "b", "velero.io/backup-uid": string(b.UID)},
		snapshots[0].Labels)
	require.Equal(t, map[string]string{
		"velero.io/csi-volumesnapshot-handle": taken[0], "velero.io/csi-driver-name": csidriver.Name,
		"velero.io/csi-vsc-deletion-policy": "Delete", "velero.io/csi-volumesnapshot-restore-size": "1Gi",
	}, snapshots[0].Annotations)
	require.Equal(t, "b", contents[0].Labels["velero.io/backup-name"])
	require.Equal(t, "chosen", classes[0].Name)
	infos := v.infos("b")
	require.Len(t, infos, 1)
	require.NotNil(t, infos[0].StartTimestamp)
	require.NotNil(t, infos[0].CompletionTimestamp)
	ready := true
	require.Equal(t, snapshot.VolumeInfo{
		PVCNamespace: v.shop, PVCName: "data", PVName: infos[0].PVName, BackupMethod: snapshot.CSI,
		PreserveLocalSnapshot: true, Result: snapshot.Succeeded,
		CSI: &snapshot.CSIInfo{
			SnapshotHandle: taken[0], Size: 1 << 30, Driver: csidriver.Name, VSCName: contents[0].Name,
			OperationID: infos[0].CSI.OperationID, ReadyToUse: &ready,
		},
		PV:             &snapshot.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"tier": "db"}},
		StartTimestamp: infos[0].StartTimestamp, CompletionTimestamp: infos[0].CompletionTimestamp,
	}, infos[0])
	require.True(t, strings.HasPrefix(infos[0].CSI.OperationID, v.shop+"/"+snapshots[0].Name+"/"))
	require.Contains(t, v.must("backup", "describe", "b", "--details"), "Storage Snapshot ID: "+taken[0])

	// Into another namespace, while the volume is in use.
	v.write(v.shop, "data", "after")
	r, text := v.restore("copy", "b", v.shop+"-copy", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "before", v.content(v.shop+"-copy", "data"))
	require.Equal(t, "after", v.content(v.shop, "data"))
	made := readJSON[[]snapshot.RestoreVolumeInfo](t, v.site, "restores", "copy", "copy-volumeinfo.json.gz")
	require.Len(t, made, 1)
	require.Equal(t, []any{"data", snapshot.CSI, taken[0]}, []any{made[0].PVCName, made[0].RestoreMethod,
		made[0].CSI.SnapshotHandle})
	pv = v.volume(v.shop+"-copy", "data")
	require.Equal(t, "db", pv.Labels["tier"])
	require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
	v.leavesNothing()
	// In place, a claim that exists stays as it is; one that is gone comes back.
	r, text = v.restore("kept", "b", "", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "after", v.content(v.shop, "data"))
	v.drop("data")
	r, text = v.restore("again", "b", "", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "before", v.content(v.shop, "data"))
	// Without the data, because it is not wanted, or because the feature is off.
	no := false
	r, text = v.restore("empty", "b", v.shop+"-empty", func(spec *velerov1.RestoreSpec) { spec.RestorePVs = &no })
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Empty(t, v.content(v.shop+"-empty", "data"))
	server.kill()
	v.serve()
	r, text = v.restore("off", "b", v.shop+"-off", nil)
	require.Equal(t, velerov1.RestorePhasePartiallyFailed, r.Status.Phase)
	require.Equal(t, 1, r.Status.Errors, text)
	require.Contains(t, text, "the data is in snapshot "+taken[0]+" of CSI driver "+csidriver.Name+
		", and the server only restores it with --features=EnableCSI")
	require.Empty(t, v.content(v.shop+"-off", "data"))
	v.leavesNothing()

	// Another cluster, which knows the backup from the bucket only, restores it and deletes it with its snapshot.
	other := newVolumes(t)
	var location, own velerov1.BackupStorageLocation
	require.NoError(t, v.client.Get(t.Context(), v.key("default"), &location))
	require.NoError(t, v.client.Get(t.Context(), other.key("default"), &own))
	own.Spec.Config, own.Spec.ObjectStorage = location.Spec.Config, location.Spec.ObjectStorage
	require.NoError(t, v.client.Update(t.Context(), &own))
	other.bucketDir, other.shop = v.bucketDir, v.shop
	other.serve("--features", "EnableCSI", "--backup-sync-period", "1s")
	other.eventually("the backup is known", func(ctx context.Context) (bool, error) {
		return other.client.Get(ctx, other.key("b"), &velerov1.Backup{}) == nil, nil
	})
	r, text = other.restore("elsewhere", "b", v.shop+"-elsewhere", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "before", other.content(v.shop+"-elsewhere", "data"))
	all, err := driver.Snapshots()
	require.NoError(t, err)
	require.Contains(t, all, taken[0])
	_, refused, err := other.run("backup", "delete", "b", "--confirm", "--wait")
	require.Error(t, err, "nothing proves to this cluster that the snapshot is the backup's")
	require.Contains(t, refused, "--delete-snapshots")
	other.must("backup", "delete", "b", "--confirm", "--wait", "--delete-snapshots")
	all, err = driver.Snapshots()
	require.NoError(t, err)
	require.NotContains(t, all, taken[0])
	require.Empty(t, v.files("backups/b"))
}

// drop deletes a claim with its volume, and waits for that.
func (v *volumes) drop(name string) {
	v.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: v.shop, Name: name}}
	require.NoError(v.t, v.client.Delete(v.t.Context(), claim))
	v.eventually("the claim is gone", func(ctx context.Context) (bool, error) {
		err := v.client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		return err != nil, client.IgnoreNotFound(err)
	})
}

// csiAsChosen: the class of a snapshot is what annotations say; policies and the spec say whether there is one.
func csiAsChosen(t *testing.T) {
	t.Parallel()
	v := newVolumes(t)
	v.claim("plain", "")
	v.claim("own", v.class("own", nil))
	v.claim("lost", "none")
	ofBackup := v.class("of-backup", nil)
	require.NoError(t, v.client.Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "rules"}, Data: map[string]string{
			"rules": "version: v1\nvolumePolicies:\n- {conditions: {pvcLabels: {app: plain}}, action: {type: snapshot}}\n- " +
				"{conditions: {csi: {driver: " + csidriver.Name + "}}, action: {type: skip}}\n",
		}}))
	v.serve("--features", "EnableCSI", "--concurrent-backups", "2")
	v.available()
	classes := func(backup string) map[string]string {
		chosen := map[string]string{}
		if !slices.Contains(v.files("backups/"+backup), backup+"-csi-volumesnapshots.json.gz") {
			return chosen
		}
		for _, vs := range readJSON[[]snapshotv1.VolumeSnapshot](t, v.site, "backups", backup,
			backup+"-csi-volumesnapshots.json.gz") {
			chosen[*vs.Spec.Source.PersistentVolumeClaimName] = strings.TrimPrefix(*vs.Spec.VolumeSnapshotClassName, v.shop+"-")
		}
		return chosen
	}
	no := false
	v.begin("default", nil)
	b := v.awaitEnd("default")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
	require.Contains(t, v.errors("default"), "annotation velero.io/csi-volumesnapshot-class of the claim names "+
		"VolumeSnapshotClass none, which does not exist; want one for driver "+csidriver.Name)
	require.Equal(t, map[string]string{"plain": "chosen", "own": "own"}, classes("default"))

	for name, tt := range map[string]struct {
		change func(*velerov1.Backup)
		want   map[string]string
		errors int
	}{
		"by-backup": {func(b *velerov1.Backup) {
			b.Annotations = map[string]string{"velero.io/csi-volumesnapshot-class_" + csidriver.Name: ofBackup}
		}, map[string]string{"plain": "of-backup", "own": "own"}, 1},
		"unwanted": {func(b *velerov1.Backup) { b.Spec.SnapshotVolumes = &no }, map[string]string{}, 0},
		"by-policy": {func(b *velerov1.Backup) {
			b.Spec.SnapshotVolumes, b.Spec.ResourcePolicy = &no, &velerov1.TypedLocalObjectReference{Kind: "ConfigMap",
				Name: "rules"}
		}, map[string]string{"plain": "chosen"}, 0},
	} {
		v.begin(name, tt.change)
		b := v.awaitEnd(name)
		require.Equal(t, tt.want, classes(name), name)
		require.Equal(t, [3]int{tt.errors, len(tt.want), len(tt.want)},
			[3]int{b.Status.Errors, b.Status.CSIVolumeSnapshotsAttempted, b.Status.CSIVolumeSnapshotsCompleted}, "%s: %s", name,
			v.errors(name))
	}
	v.leavesNothing()

	// Two backups run at once.
	first := v.shop
	v.begin("one", func(b *velerov1.Backup) { b.Spec.ExcludedNamespaceScopedResources = []string{"configmaps"} })
	v.shop = v.workload(1)
	v.claim("beside", "")
	v.begin("two", nil)
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, v.awaitEnd("one").Status.Phase)
	require.Equal(t, velerov1.BackupPhaseCompleted, v.awaitEnd("two").Status.Phase, v.errors("two"))
	require.Equal(t, map[string]string{"plain": "chosen", "own": first + "-own"}, classes("one"))
	require.Equal(t, map[string]string{"beside": "chosen"}, classes("two"))
	v.shop = first
	v.leavesNothing()

	// A dry run takes none.
	before := len(v.taken())
	v.must("backup", "create", "trial", "--include-namespaces", v.shop, "--dry-run")
	require.Len(t, v.taken(), before)
	v.leavesNothing()
}

// csiFailures: a snapshot that is not made, or never ready, is an error, after which there is nothing of it.
func csiFailures(t *testing.T) {
	t.Parallel()
	const patience = 30 * time.Second // in which the other snapshot is made and ready on a busy machine
	v := newVolumes(t)
	missing := filepath.Join(t.TempDir(), "missing")
	v.claim("good", "")
	v.claim("unmade", v.class("unmade", map[string]string{csidriver.MadeWith: missing}))
	v.serve("--features", "EnableCSI", "--isolate-built-ins")
	v.available()

	v.begin("unmade", func(b *velerov1.Backup) { b.Spec.CSISnapshotTimeout.Duration = patience })
	b := v.awaitEnd("unmade")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
	require.Regexp(t, `VolumeSnapshot velero-unmade-.{5} has no snapshot handle after 30s: .*there is no file missing`,
		v.errors("unmade"))
	require.Equal(t, [3]int{1, 1, 1}, [3]int{b.Status.Errors, b.Status.CSIVolumeSnapshotsAttempted,
		b.Status.CSIVolumeSnapshotsCompleted}, v.errors("unmade"))
	require.Len(t, v.taken(), 1)
	v.leavesNothing()

	v.drop("unmade")
	v.claim("unready", v.class("unready", map[string]string{csidriver.ReadyWith: missing}))
	v.begin("unready", func(b *velerov1.Backup) { b.Spec.ItemOperationTimeout.Duration = patience })
	b = v.awaitEnd("unready")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
	require.Equal(t, [3]int{2, 1, 1}, [3]int{b.Status.CSIVolumeSnapshotsAttempted, b.Status.CSIVolumeSnapshotsCompleted,
		b.Status.BackupItemOperationsFailed})
	require.Contains(t, v.errors("unready"), "velero.io/csi-volumesnapshot-backupper")
	v.leavesNothing()
	v.eventually("the snapshot is deleted", func(context.Context) (bool, error) { return len(v.taken()) == 2, nil })
	r, text := v.restore("r", "unready", v.shop+"-copy", nil)
	require.Equal(t, velerov1.RestorePhasePartiallyFailed, r.Status.Phase)
	require.Equal(t, 1, r.Status.Errors, text)
	require.Contains(t, text, "the data of persistent volume claim "+v.shop+
		"/unready is not restored, it stays empty: the backup failed to take it")
	require.Equal(t, "before", v.content(v.shop+"-copy", "good"))
	require.Empty(t, v.content(v.shop+"-copy", "unready"))
}

// csiOfKilledServers kills the server while it waits for a handle, and while a snapshot is not ready yet. The next
// server takes the snapshot again, or waits for it. Those of a backup that is deleted meanwhile are removed.
func csiOfKilledServers(t *testing.T) {
	t.Parallel()
	v := newVolumes(t)
	gates := t.TempDir()
	made, ready := filepath.Join(gates, "made"), filepath.Join(gates, "ready")
	v.claim("data", v.class("gated", map[string]string{csidriver.MadeWith: made, csidriver.ReadyWith: ready}))
	server := v.serve("--features", "EnableCSI")
	v.available()
	snapshots := func(ctx context.Context) (names []string, err error) {
		var list snapshotv1.VolumeSnapshotList
		err = v.client.List(ctx, &list, client.InNamespace(v.shop))
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, err
	}
	var former []string
	awaitOne := func(not []string) {
		t.Helper()
		v.eventually("the snapshot is requested", func(ctx context.Context) (bool, error) {
			var err error
			former, err = snapshots(ctx)
			return len(former) == 1 && !slices.Contains(not, former[0]), err
		})
	}

	v.begin("b", nil)
	awaitOne(nil)
	first := slices.Clone(former)
	server.kill()
	server = v.serve("--features", "EnableCSI")
	awaitOne(first) // of the second attempt; the first is gone
	require.NoError(t, os.WriteFile(made, nil, 0o600))
	v.eventually("the backup waits", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := v.client.Get(ctx, v.key("b"), &b)
		return b.Status.Phase == velerov1.BackupPhaseWaitingForPluginOperations, err
	})
	server.kill()
	server = v.serve("--features", "EnableCSI")
	require.NoError(t, os.WriteFile(ready, nil, 0o600))
	b := v.awaitEnd("b")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors("b"))
	require.Zero(t, b.Status.Warnings, v.errors("b"))
	v.leavesNothing()
	require.Len(t, v.taken(), 1)
	r, text := v.restore("r", "b", v.shop+"-copy", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "before", v.content(v.shop+"-copy", "data"))

	require.NoError(t, os.Remove(made))
	v.begin("gone", nil)
	awaitOne(nil)
	server.kill()
	require.NoError(t, v.client.Delete(t.Context(),
		&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "gone"}}))
	v.serve("--features", "EnableCSI")
	v.leavesNothing()
	require.Len(t, v.taken(), 1)
}

// TestAcceptVolumes_WaitIsExplained restores a claim whose storage class does not exist.
func TestAcceptVolumes_WaitIsExplained(t *testing.T) {
	t.Parallel()
	v := newVolumes(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: v.namespace}, Provisioner: csidriver.Name}
	require.NoError(t, v.client.Create(t.Context(), class))
	t.Cleanup(func() { _ = v.client.Delete(context.Background(), class) })
	require.NoError(t, v.client.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.shop, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: &class.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	}))
	v.write(v.shop, "data", "before")
	server := v.serve("--features", "EnableCSI")
	v.available()
	v.begin("b", nil)
	require.Equal(t, velerov1.BackupPhaseCompleted, v.awaitEnd("b").Status.Phase, v.errors("b"))
	require.NoError(t, v.client.Delete(t.Context(), class))
	into := v.shop + "-copy"
	v.must("restore", "create", "r", "--from-backup", "b", "--namespace-mappings", v.shop+":"+into)
	what := "persistent volume claim " + into + "/data to be bound"
	v.awaitWait("restore", "r", what)
	server.awaitLine("waiting", what, "since=20", "restore="+v.namespace+"/r")
	class.ResourceVersion = ""
	require.NoError(t, v.client.Create(t.Context(), class))
	require.Equal(t, velerov1.RestorePhaseCompleted, v.awaitEndOfRestore("r").Status.Phase)
	require.Equal(t, "before", v.content(into, "data"))
	v.requireNoWait("restore", "r")
}
