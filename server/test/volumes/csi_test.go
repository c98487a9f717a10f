package volumes_test

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

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
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
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/csidriver"
	"github.com/cleat-dev/cleat/server/test/site"
)

// driver is the CSI driver of the control plane storage, with a VolumeSnapshotClass "chosen" by label and others by
// name.
var driver struct {
	csidriver.Driver
	once sync.Once
	err  error
}

// volumeSite is a site on the control plane with the volumes of a CSI driver.
type volumeSite struct{ *site.Site }

func newVolumeSite(t *testing.T) *volumeSite {
	t.Helper()
	s := site.NewIn(t, storage.Installed(t), "cleat.dev/file")
	scheme, err := app.Scheme()
	require.NoError(t, err)
	require.NoError(t, snapshotv1.AddToScheme(scheme))
	require.NoError(t, groupsnapshotv1.AddToScheme(scheme))
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	s.Client, err = client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	driver.once.Do(func() {
		driver.Dir = filepath.Join(os.TempDir(), "csi")
		if _, driver.err = driver.Serve(storage.Options.CSISocket); driver.err == nil {
			driver.err = csidriver.Install(context.WithoutCancel(t.Context()), s.Cluster, s.Client)
		}
	})
	require.NoError(t, driver.err)
	v := &volumeSite{s}
	s.Shop = s.Workload(1)
	v.class("chosen", nil)
	return v
}

// class creates a VolumeSnapshotClass with a name of its own, unless it is the one with the label.
func (v *volumeSite) class(name string, parameters map[string]string) string {
	v.T.Helper()
	class := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: csidriver.Name,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete, Parameters: parameters,
	}
	if name == "chosen" {
		class.Labels = map[string]string{"velero.io/csi-volumesnapshot-class": "true"}
	} else {
		class.Name = v.Shop + "-" + name
	}
	v.Eventually("the class is created", func(ctx context.Context) (bool, error) {
		// The definition may just have been installed.
		return true, client.IgnoreAlreadyExists(v.Client.Create(ctx, class))
	})
	return class.Name
}

// claim creates a claim in the shop with a volume of the driver that has some bytes. class is the class of its
// snapshots, or "" for the default.
func (v *volumeSite) claim(name, class string) {
	v.T.Helper()
	size, storageClass := corev1.ResourceList{"storage": resource.MustParse("1Gi")}, csidriver.StorageClass
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Shop, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: &storageClass,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	if class != "" {
		claim.Annotations = map[string]string{"velero.io/csi-volumesnapshot-class": class}
	}
	require.NoError(v.T, v.Client.Create(v.T.Context(), claim))
	v.write(v.Shop, name, "before")
}

// dir returns the directory of the volume of a claim, once it is bound.
func (v *volumeSite) dir(namespace, name string) string {
	v.T.Helper()
	return driver.Volume(v.volume(namespace, name).Spec.CSI.VolumeHandle)
}

// volume returns the volume of a claim, once it is bound.
func (v *volumeSite) volume(namespace, name string) *corev1.PersistentVolume {
	v.T.Helper()
	var claim corev1.PersistentVolumeClaim
	v.Eventually("claim "+namespace+"/"+name+" is bound", func(ctx context.Context) (bool, error) {
		err := v.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &claim)
		return claim.Status.Phase == corev1.ClaimBound, err
	})
	var pv corev1.PersistentVolume
	require.NoError(v.T, v.Client.Get(v.T.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, &pv))
	return &pv
}

func (v *volumeSite) write(namespace, name, content string) {
	v.T.Helper()
	require.NoError(v.T, os.WriteFile(filepath.Join(v.dir(namespace, name), "data"), []byte(content), 0o600))
}

// content returns the bytes in the volume of a claim, or "" if it is empty.
func (v *volumeSite) content(namespace, name string) string {
	v.T.Helper()
	data, err := os.ReadFile(filepath.Join(v.dir(namespace, name), "data"))
	if !os.IsNotExist(err) {
		require.NoError(v.T, err)
	}
	return string(data)
}

// begin creates a backup of the shop.
func (v *volumeSite) begin(name string, change func(*velerov1.Backup)) {
	v.T.Helper()
	b := &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: name}, Spec: velerov1.BackupSpec{
			IncludedNamespaces: []string{v.Shop},
		},
	}
	if change != nil {
		change(b)
	}
	require.NoError(v.T, v.Client.Create(v.T.Context(), b))
}

// errors returns the errors of a backup as one text.
func (v *volumeSite) errors(backup string) string {
	v.T.Helper()
	text, err := json.Marshal(site.ReadJSON[results.Results](v.T, v.Site, "backups", backup, backup+"-results.gz"))
	require.NoError(v.T, err)
	return string(text)
}

// infos returns the file volumeinfo of a backup.
func (v *volumeSite) infos(backup string) []volumes.VolumeInfo {
	v.T.Helper()
	return site.ReadJSON[[]volumes.VolumeInfo](v.T, v.Site, "backups", backup, backup+"-volumeinfo.json.gz")
}

// taken returns the snapshots at the storage system of volumes of the shop, sorted.
func (v *volumeSite) taken() []string {
	v.T.Helper()
	ids, err := driver.SnapshotsOf(func(volume string) bool {
		var list corev1.PersistentVolumeList
		require.NoError(v.T, v.Client.List(v.T.Context(), &list))
		return slices.ContainsFunc(list.Items, func(pv corev1.PersistentVolume) bool {
			return pv.Spec.CSI != nil && pv.Spec.CSI.VolumeHandle == volume && pv.Spec.ClaimRef.Namespace == v.Shop
		})
	})
	require.NoError(v.T, err)
	return ids
}

// leavesNothing waits until the cluster has no snapshots of the shop and its copies, and no records of any.
func (v *volumeSite) leavesNothing() {
	v.T.Helper()
	ofShop := func(namespace string) bool { return strings.HasPrefix(namespace, v.Shop) }
	v.Eventually("no objects of snapshots are left", func(ctx context.Context) (bool, error) {
		var snapshots snapshotv1.VolumeSnapshotList
		var contents snapshotv1.VolumeSnapshotContentList
		var records corev1.ConfigMapList
		if err := v.Client.List(ctx, &snapshots); err != nil {
			return false, err
		}
		if err := v.Client.List(ctx, &contents); err != nil {
			return false, err
		}
		err := v.Client.List(ctx, &records, client.InNamespace(v.Namespace), client.HasLabels{volumes.OwnerLabel})
		left := slices.ContainsFunc(contents.Items,
			func(c snapshotv1.VolumeSnapshotContent) bool { return ofShop(c.Spec.VolumeSnapshotRef.Namespace) }) ||
			slices.ContainsFunc(snapshots.Items, func(vs snapshotv1.VolumeSnapshot) bool { return ofShop(vs.Namespace) })
		return !left && len(records.Items) == 0, err
	})
}

// restore restores a backup, into another namespace unless that is "", and returns the restore with its results.
func (v *volumeSite) restore(
	name, backup, into string, change func(*velerov1.RestoreSpec),
) (*velerov1.Restore, string) {
	v.T.Helper()
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: name},
		Spec: velerov1.RestoreSpec{BackupName: backup}}
	if into != "" {
		r.Spec.NamespaceMapping = map[string]string{v.Shop: into}
	}
	if change != nil {
		change(&r.Spec)
	}
	require.NoError(v.T, v.Client.Create(v.T.Context(), r))
	v.Eventually("restore "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := v.Client.Get(ctx, v.Key(name), r)
		return r.Status.Phase.Terminal(), err
	})
	text, err := json.Marshal(site.ReadJSON[results.Results](v.T, v.Site, "restores", name, "restore-"+name+"-results.gz"))
	require.NoError(v.T, err)
	return r, string(text)
}

// TestAcceptVolumes_CSISnapshots takes snapshots of the volumes of a CSI driver with the real controllers of
// snapshots, binds restored claims to them, and deletes them with their backup. Snapshots that fail, or whose backup
// no longer waits for them, leave nothing.
func TestAcceptVolumes_CSISnapshots(t *testing.T) {
	t.Parallel()
	t.Run("there and back", csiThereAndBack)
	t.Run("choices", csiAsChosen)
	t.Run("snapshots that fail", csiFailures)
	t.Run("the server is killed", csiOfKilledServers)
	t.Run("least privilege", csiOfLeastPrivilege)
}

// csiOfLeastPrivilege takes a snapshot with a server that is not a cluster admin, and restores and deletes it.
func csiOfLeastPrivilege(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	v.claim("data", "")
	pv := v.volume(v.Shop, "data")
	pv.Labels = map[string]string{"tier": "db"}
	require.NoError(t, v.Client.Update(t.Context(), pv))
	v.Must("install", "--no-default-backup-location", "--no-secret", "--rbac", "least", "--rbac-namespaces", v.Shop,
		"--rbac-all-volumes", "--features", "EnableCSI")
	v.ServerKubeconfig = v.KubeconfigOf("velero")
	server := v.Serve("--features", "EnableCSI")
	v.Available()
	v.begin("b", nil)
	b := v.AwaitEnd("b")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors("b"))
	require.Len(t, v.taken(), 1)
	v.write(v.Shop, "data", "after")
	v.drop("data")
	r, text := v.restore("r", "b", "", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Zero(t, r.Status.Warnings, text)
	require.Equal(t, "before", v.content(v.Shop, "data"))
	require.Equal(t, "db", v.volume(v.Shop, "data").Labels["tier"])
	v.leavesNothing()
	v.Must("backup", "delete", "b", "--confirm", "--wait")
	require.Empty(t, v.taken())
	site.RequireRights(t, server.Log)
}

func csiThereAndBack(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	v.claim("data", "")
	server := v.Serve("--features", "EnableCSI")
	v.Available()
	pv := v.volume(v.Shop, "data")
	pv.Labels, pv.Spec.PersistentVolumeReclaimPolicy = map[string]string{"tier": "db"},
		corev1.PersistentVolumeReclaimRetain
	require.NoError(t, v.Client.Update(t.Context(), pv))

	v.begin("b", nil)
	b := v.AwaitEnd("b")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors("b"))
	require.Equal(t, [4]int{1, 1, 1, 0}, [4]int{
		b.Status.CSIVolumeSnapshotsAttempted, b.Status.CSIVolumeSnapshotsCompleted, b.Status.BackupItemOperationsCompleted,
		b.Status.Warnings,
	}, v.errors("b"))
	taken := v.taken()
	require.Len(t, taken, 1)
	v.leavesNothing()

	// The files that Velero writes.
	snapshots := site.ReadJSON[[]snapshotv1.VolumeSnapshot](t, v.Site, "backups", "b", "b-csi-volumesnapshots.json.gz")
	contents := site.ReadJSON[[]snapshotv1.VolumeSnapshotContent](t, v.Site, "backups", "b",
		"b-csi-volumesnapshotcontents.json.gz")
	classes := site.ReadJSON[[]snapshotv1.VolumeSnapshotClass](t, v.Site, "backups", "b",
		"b-csi-volumesnapshotclasses.json.gz")
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
	require.Equal(t, volumes.VolumeInfo{
		PVCNamespace: v.Shop, PVCName: "data", PVName: infos[0].PVName, BackupMethod: volumes.CSI,
		PreserveLocalSnapshot: true, Result: volumes.Succeeded,
		CSI: &volumes.CSIInfo{
			SnapshotHandle: taken[0], Size: 1 << 30, Driver: csidriver.Name, VSCName: contents[0].Name,
			OperationID: infos[0].CSI.OperationID, ReadyToUse: &ready,
		},
		PV:             &volumes.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"tier": "db"}},
		StartTimestamp: infos[0].StartTimestamp, CompletionTimestamp: infos[0].CompletionTimestamp,
	}, infos[0])
	require.True(t, strings.HasPrefix(infos[0].CSI.OperationID, v.Shop+"/"+snapshots[0].Name+"/"))
	require.Contains(t, v.Must("backup", "describe", "b", "--details"), "Storage Snapshot ID: "+taken[0])

	// Into another namespace, while the volume is in use.
	v.write(v.Shop, "data", "after")
	r, text := v.restore("copy", "b", v.Shop+"-copy", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "before", v.content(v.Shop+"-copy", "data"))
	require.Equal(t, "after", v.content(v.Shop, "data"))
	made := site.ReadJSON[[]volumes.RestoreVolumeInfo](t, v.Site, "restores", "copy", "copy-volumeinfo.json.gz")
	require.Len(t, made, 1)
	require.Equal(t, []any{"data", volumes.CSI, taken[0]}, []any{made[0].PVCName, made[0].RestoreMethod,
		made[0].CSI.SnapshotHandle})
	pv = v.volume(v.Shop+"-copy", "data")
	require.Equal(t, "db", pv.Labels["tier"])
	require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
	v.leavesNothing()
	// In place, an existing claim is not changed, and a missing one is restored.
	r, text = v.restore("kept", "b", "", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "after", v.content(v.Shop, "data"))
	v.drop("data")
	r, text = v.restore("again", "b", "", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "before", v.content(v.Shop, "data"))
	// Without the data, because the restore excludes it, or because the feature is off.
	no := false
	r, text = v.restore("empty", "b", v.Shop+"-empty", func(spec *velerov1.RestoreSpec) { spec.RestorePVs = &no })
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Empty(t, v.content(v.Shop+"-empty", "data"))
	server.Kill()
	v.Serve()
	r, text = v.restore("off", "b", v.Shop+"-off", nil)
	require.Equal(t, velerov1.RestorePhasePartiallyFailed, r.Status.Phase)
	require.Equal(t, 1, r.Status.Errors, text)
	require.Contains(t, text, "the data is in snapshot "+taken[0]+" of CSI driver "+csidriver.Name+
		", and the server only restores it with --features=EnableCSI")
	require.Empty(t, v.content(v.Shop+"-off", "data"))
	v.leavesNothing()

	// Another cluster, which has the backup from the bucket only, restores it and deletes it with its snapshot.
	other := newVolumeSite(t)
	var location, own velerov1.BackupStorageLocation
	require.NoError(t, v.Client.Get(t.Context(), v.Key("default"), &location))
	require.NoError(t, v.Client.Get(t.Context(), other.Key("default"), &own))
	own.Spec.Config, own.Spec.ObjectStorage = location.Spec.Config, location.Spec.ObjectStorage
	require.NoError(t, v.Client.Update(t.Context(), &own))
	other.BucketDir, other.Shop = v.BucketDir, v.Shop
	other.Serve("--features", "EnableCSI", "--backup-sync-period", "1s")
	other.Eventually("the backup is known", func(ctx context.Context) (bool, error) {
		return other.Client.Get(ctx, other.Key("b"), &velerov1.Backup{}) == nil, nil
	})
	r, text = other.restore("elsewhere", "b", v.Shop+"-elsewhere", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "before", other.content(v.Shop+"-elsewhere", "data"))
	all, err := driver.Snapshots()
	require.NoError(t, err)
	require.Contains(t, all, taken[0])
	_, refused, err := other.Run("backup", "delete", "b", "--confirm", "--wait")
	require.Error(t, err, "nothing proves to this cluster that the snapshot is the backup's")
	require.Contains(t, refused, "--delete-snapshots")
	other.Must("backup", "delete", "b", "--confirm", "--wait", "--delete-snapshots")
	all, err = driver.Snapshots()
	require.NoError(t, err)
	require.NotContains(t, all, taken[0])
	require.Empty(t, v.Files("backups/b"))
}

// drop deletes a claim with its volume, and waits for that.
func (v *volumeSite) drop(name string) {
	v.T.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: v.Shop, Name: name}}
	require.NoError(v.T, v.Client.Delete(v.T.Context(), claim))
	v.Eventually("the claim is gone", func(ctx context.Context) (bool, error) {
		err := v.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		return err != nil, client.IgnoreNotFound(err)
	})
}

// csiAsChosen shows that annotations select the class of a snapshot. Policies and the spec determine whether there is
// one.
func csiAsChosen(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	v.claim("plain", "")
	v.claim("own", v.class("own", nil))
	v.claim("lost", "none")
	ofBackup := v.class("of-backup", nil)
	require.NoError(t, v.Client.Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: "rules"}, Data: map[string]string{
			"rules": "version: v1\nvolumePolicies:\n- {conditions: {pvcLabels: {app: plain}}, action: {type: snapshot}}\n- " +
				"{conditions: {csi: {driver: " + csidriver.Name + "}}, action: {type: skip}}\n",
		}}))
	require.NoError(t, v.Client.Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: "classes"}, Data: map[string]string{
			"rules": "version: v1\nvolumePolicies:\n- {conditions: {pvcLabels: {app: lost}}, action: {type: skip}}\n- " +
				"{action: {type: snapshot, parameters: {snapshotClass: " + v.class("of-policy", nil) + "}}}\n",
		}}))
	v.Serve("--features", "EnableCSI", "--concurrent-backups", "2")
	v.Available()
	classes := func(backup string) map[string]string {
		chosen := map[string]string{}
		if !slices.Contains(v.Files("backups/"+backup), backup+"-csi-volumesnapshots.json.gz") {
			return chosen
		}
		for _, vs := range site.ReadJSON[[]snapshotv1.VolumeSnapshot](t, v.Site, "backups", backup,
			backup+"-csi-volumesnapshots.json.gz") {
			chosen[*vs.Spec.Source.PersistentVolumeClaimName] = strings.TrimPrefix(*vs.Spec.VolumeSnapshotClassName, v.Shop+"-")
		}
		return chosen
	}
	no := false
	v.begin("default", nil)
	b := v.AwaitEnd("default")
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
		"class-of-policy": {func(b *velerov1.Backup) {
			b.Spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "ConfigMap", Name: "classes"}
		}, map[string]string{"plain": "of-policy", "own": "of-policy"}, 0},
	} {
		v.begin(name, tt.change)
		b := v.AwaitEnd(name)
		require.Equal(t, tt.want, classes(name), name)
		require.Equal(t, [3]int{tt.errors, len(tt.want), len(tt.want)},
			[3]int{b.Status.Errors, b.Status.CSIVolumeSnapshotsAttempted, b.Status.CSIVolumeSnapshotsCompleted}, "%s: %s", name,
			v.errors(name))
	}
	v.leavesNothing()
	claims := "resources/persistentvolumeclaims/namespaces/" + v.Shop + "/"
	require.Contains(t, string(v.Archived("class-of-policy", claims+"own.json")),
		`"velero.io/csi-volumesnapshot-class":"`+v.Shop+`-own"`, "a claim is stored with its own class")
	require.NotContains(t, string(v.Archived("class-of-policy", claims+"plain.json")),
		`"velero.io/csi-volumesnapshot-class":"`, "a claim is stored without a class")

	// Two backups run at once.
	first := v.Shop
	v.begin("one", func(b *velerov1.Backup) { b.Spec.ExcludedNamespaceScopedResources = []string{"configmaps"} })
	v.Shop = v.Workload(1)
	v.claim("beside", "")
	v.begin("two", nil)
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, v.AwaitEnd("one").Status.Phase)
	require.Equal(t, velerov1.BackupPhaseCompleted, v.AwaitEnd("two").Status.Phase, v.errors("two"))
	require.Equal(t, map[string]string{"plain": "chosen", "own": first + "-own"}, classes("one"))
	require.Equal(t, map[string]string{"beside": "chosen"}, classes("two"))
	v.Shop = first
	v.leavesNothing()

	// A dry run takes none.
	before := len(v.taken())
	v.Must("backup", "create", "trial", "--include-namespaces", v.Shop, "--dry-run")
	require.Len(t, v.taken(), before)
	v.leavesNothing()
}

// csiFailures shows that a snapshot that is not made, or never ready, is an error, and that nothing of it remains.
func csiFailures(t *testing.T) {
	t.Parallel()
	const patience = time.Minute // in which the other snapshot is made and ready on a busy machine
	v := newVolumeSite(t)
	missing := filepath.Join(t.TempDir(), "missing")
	v.claim("good", "")
	v.claim("unmade", v.class("unmade", map[string]string{csidriver.MadeWith: missing}))
	v.Serve("--features", "EnableCSI", "--isolate-built-ins")
	v.Available()

	v.begin("unmade", func(b *velerov1.Backup) { b.Spec.CSISnapshotTimeout.Duration = patience })
	b := v.AwaitEnd("unmade")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
	require.Regexp(t, `VolumeSnapshot velero-unmade-.{5} has no snapshot handle after 1m0s: .*there is no file missing`,
		v.errors("unmade"))
	require.Equal(t, [3]int{1, 1, 1}, [3]int{b.Status.Errors, b.Status.CSIVolumeSnapshotsAttempted,
		b.Status.CSIVolumeSnapshotsCompleted}, v.errors("unmade"))
	require.Len(t, v.taken(), 1)
	v.leavesNothing()

	v.drop("unmade")
	v.claim("unready", v.class("unready", map[string]string{csidriver.ReadyWith: missing}))
	v.begin("unready", func(b *velerov1.Backup) { b.Spec.ItemOperationTimeout.Duration = patience })
	b = v.AwaitEnd("unready")
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
	require.Equal(t, [3]int{2, 1, 1}, [3]int{b.Status.CSIVolumeSnapshotsAttempted, b.Status.CSIVolumeSnapshotsCompleted,
		b.Status.BackupItemOperationsFailed})
	require.Contains(t, v.errors("unready"), "velero.io/csi-volumesnapshot-backupper")
	v.leavesNothing()
	v.Eventually("the snapshot is deleted", func(context.Context) (bool, error) { return len(v.taken()) == 2, nil })
	r, text := v.restore("r", "unready", v.Shop+"-copy", nil)
	require.Equal(t, velerov1.RestorePhasePartiallyFailed, r.Status.Phase)
	require.Equal(t, 1, r.Status.Errors, text)
	require.Contains(t, text, "the data of persistent volume claim "+v.Shop+
		"/unready is not restored, it stays empty: the backup failed to take it")
	require.Equal(t, "before", v.content(v.Shop+"-copy", "good"))
	require.Empty(t, v.content(v.Shop+"-copy", "unready"))
}

// csiOfKilledServers kills the server while it waits for a handle, and while a snapshot is not ready yet. The next
// server takes the snapshot again, or waits for it. Snapshots of a backup that is deleted meanwhile are removed.
func csiOfKilledServers(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	gates := t.TempDir()
	made, ready := filepath.Join(gates, "made"), filepath.Join(gates, "ready")
	v.claim("data", v.class("gated", map[string]string{csidriver.MadeWith: made, csidriver.ReadyWith: ready}))
	server := v.Serve("--features", "EnableCSI")
	v.Available()
	snapshots := func(ctx context.Context) (names []string, err error) {
		var list snapshotv1.VolumeSnapshotList
		err = v.Client.List(ctx, &list, client.InNamespace(v.Shop))
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, err
	}
	var former []string
	awaitOne := func(not []string) {
		t.Helper()
		v.Eventually("the snapshot is requested", func(ctx context.Context) (bool, error) {
			var err error
			former, err = snapshots(ctx)
			return len(former) == 1 && !slices.Contains(not, former[0]), err
		})
	}

	v.begin("b", nil)
	awaitOne(nil)
	first := slices.Clone(former)
	server.Kill()
	server = v.Serve("--features", "EnableCSI")
	awaitOne(first) // of the second attempt; the first was deleted
	require.NoError(t, os.WriteFile(made, nil, 0o600))
	v.Eventually("the backup waits", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		err := v.Client.Get(ctx, v.Key("b"), &b)
		return b.Status.Phase == velerov1.BackupPhaseWaitingForPluginOperations, err
	})
	server.Kill()
	server = v.Serve("--features", "EnableCSI")
	require.NoError(t, os.WriteFile(ready, nil, 0o600))
	b := v.AwaitEnd("b")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, v.errors("b"))
	require.Zero(t, b.Status.Warnings, v.errors("b"))
	v.leavesNothing()
	require.Len(t, v.taken(), 1)
	r, text := v.restore("r", "b", v.Shop+"-copy", nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	require.Equal(t, "before", v.content(v.Shop+"-copy", "data"))

	require.NoError(t, os.Remove(made))
	v.begin("gone", nil)
	awaitOne(nil)
	server.Kill()
	require.NoError(t, v.Client.Delete(t.Context(),
		&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: "gone"}}))
	v.Serve("--features", "EnableCSI")
	v.leavesNothing()
	require.Len(t, v.taken(), 1)
}

// TestAcceptVolumes_WaitIsExplained restores a claim whose storage class does not exist.
func TestAcceptVolumes_WaitIsExplained(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: v.Namespace}, Provisioner: csidriver.Name}
	require.NoError(t, v.Client.Create(t.Context(), class))
	t.Cleanup(func() { _ = v.Client.Delete(context.Background(), class) })
	require.NoError(t, v.Client.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Shop, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: &class.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	}))
	v.write(v.Shop, "data", "before")
	server := v.Serve("--features", "EnableCSI")
	v.Available()
	v.begin("b", nil)
	require.Equal(t, velerov1.BackupPhaseCompleted, v.AwaitEnd("b").Status.Phase, v.errors("b"))
	require.NoError(t, v.Client.Delete(t.Context(), class))
	into := v.Shop + "-copy"
	v.Must("restore", "create", "r", "--from-backup", "b", "--namespace-mappings", v.Shop+":"+into)
	what := "persistent volume claim " + into + "/data to be bound"
	v.AwaitWait("restore", "r", what)
	server.AwaitLine("waiting", what, "since=20", "restore="+v.Namespace+"/r")
	class.ResourceVersion = ""
	require.NoError(t, v.Client.Create(t.Context(), class))
	require.Equal(t, velerov1.RestorePhaseCompleted, v.AwaitEndOfRestore("r").Status.Phase)
	require.Equal(t, "before", v.content(into, "data"))
	v.RequireNoWait("restore", "r")
}
