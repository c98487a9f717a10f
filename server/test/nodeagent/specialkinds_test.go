package nodeagent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/csidriver"
	"github.com/cleat-dev/cleat/server/test/pods"
)

// TestAcceptVolumes_SpecialKinds backs up and restores pods of a real kubelet, whose volumes have kinds that are
// difficult to restore.
func TestAcceptVolumes_SpecialKinds(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.runAgent()
	m.serve("--features=EnableCSI")
	for _, row := range []struct { //nolint:paralleltest // one after the other
		name string
		run  func(m *machine)
	}{
		{"the claim of an ephemeral volume belongs to its pod, and has its files", ephemeralByFiles},
		{"the claim of an ephemeral volume belongs to its pod, and has its snapshot", ephemeralBySnapshot},
		{"the claim of an ephemeral volume is not restored without its pod", ephemeralWithoutPod},
		{"claims with a retention policy belong to their StatefulSet again", retainedClaims},
		{"the init container reads what only the user of the pod may read", userOfPod},
		{"a file system backup leaves out a claim that is excluded", excludedClaim},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.run(m.in(t))
		})
	}
}

// in returns the machine for a subtest, with a namespace of its own.
func (m *machine) in(t *testing.T) *machine {
	t.Helper()
	s, f := *m.site, *m.files
	s.t, f.site = t, &s
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: m.shop + "-"}}
	require.NoError(t, m.client.Create(t.Context(), namespace))
	return &machine{files: &f, cluster: m.cluster, shop: namespace.Name}
}

// deploy runs a Deployment whose pod has an ephemeral volume with files of all kinds, and labels its persistent
// volume.
func (m *machine) deploy() (pod *corev1.Pod, files string) {
	m.t.Helper()
	spec := treePod("").Spec
	class := csidriver.StorageClass
	spec.Volumes = []corev1.Volume{{Name: "scratch",
		VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
				},
			}},
		}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	labels := map[string]string{"app": "press"}
	require.NoError(m.t, m.client.Create(m.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.shop, Name: "press"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}))
	pod = m.onlyPod()
	m.tree(pod, "write", "/scratch")
	pv := m.volumeOf(m.shop, pod.Name+"-scratch")
	m.change(pv, func() {
		pv.Labels = map[string]string{"tier": "gold", corev1.LabelTopologyZone: "old-zone"}
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	m.t.Cleanup(func() { _ = m.client.Delete(context.Background(), pv) })
	return pod, m.tree(pod, "list", "/scratch")
}

// onlyPod returns the only pod of the shop, which is running.
func (m *machine) onlyPod() *corev1.Pod {
	m.t.Helper()
	var list corev1.PodList
	m.retry("a pod runs", func(ctx context.Context) error {
		err := m.client.List(ctx, &list, client.InNamespace(m.shop))
		if err == nil && (len(list.Items) != 1 || list.Items[0].Status.Phase != corev1.PodRunning) {
			err = fmt.Errorf("there are %d pods: %v", len(list.Items), list.Items)
		}
		return err
	})
	return &list.Items[0]
}

func (m *machine) volumeOf(namespace, claim string) *corev1.PersistentVolume {
	m.t.Helper()
	var pvc corev1.PersistentVolumeClaim
	require.NoError(m.t, m.client.Get(m.t.Context(), client.ObjectKey{Namespace: namespace, Name: claim}, &pvc))
	pv := new(corev1.PersistentVolume)
	require.NoError(m.t, m.client.Get(m.t.Context(), client.ObjectKey{Name: pvc.Spec.VolumeName}, pv))
	return pv
}

// dropShop deletes the namespace.
func (m *machine) dropShop() {
	m.t.Helper()
	require.NoError(m.t, m.client.Delete(m.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.shop}}))
	m.retry("the namespace is deleted", func(ctx context.Context) error {
		if err := m.client.Get(ctx, client.ObjectKey{Name: m.shop}, new(corev1.Namespace)); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists, or cannot be read: %w", err)
		}
		return nil
	})
}

// takeBackup backs up the shop, and returns the name of the backup, which is the name of the shop.
func (m *machine) takeBackup(byFiles bool) string {
	m.t.Helper()
	b := m.backUp(m.shop, velerov1.BackupSpec{IncludedNamespaces: []string{m.shop}, DefaultVolumesToFsBackup: &byFiles})
	require.Equal(m.t, velerov1.BackupPhaseCompleted, b.Status.Phase, m.results("backups", b.Name))
	return b.Name
}

// restoreShop restores the backup of the shop, and returns the restore at its end.
func (m *machine) restoreShop(change func(*velerov1.RestoreSpec)) *velerov1.Restore {
	m.t.Helper()
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: m.shop}, Spec: velerov1.RestoreSpec{BackupName: m.shop}}
	if change != nil {
		change(&r.Spec)
	}
	m.create(r)
	return m.restored(r)
}

func ephemeralByFiles(m *machine) { ephemeralComesBack(m, true) }

func ephemeralBySnapshot(m *machine) { ephemeralComesBack(m, false) }

// ephemeralComesBack restores a pod with an ephemeral volume. The new persistent volume is the same as the old one,
// except for its location.
func ephemeralComesBack(m *machine, byFiles bool) {
	_, files := m.deploy()
	m.takeBackup(byFiles)
	m.dropShop()
	r := m.restoreShop(nil)
	require.Equal(m.t, velerov1.RestorePhaseCompleted, r.Status.Phase, m.results("restores", r.Name))
	require.Zero(m.t, r.Status.Warnings, m.results("restores", r.Name))
	pod := m.onlyPod()
	if byFiles {
		files = pods.KeptByKopia(files)
	}
	require.Equal(m.t, files, m.tree(pod, "list", "/scratch"))
	var claim corev1.PersistentVolumeClaim
	require.NoError(m.t, m.client.Get(m.t.Context(), client.ObjectKey{Namespace: m.shop, Name: pod.Name + "-scratch"},
		&claim))
	require.True(m.t, metav1.IsControlledBy(&claim, pod))
	require.NotContains(m.t, claim.Annotations, "cleat.dev/ephemeral-volume-of")
	pv := m.volumeOf(m.shop, claim.Name)
	require.Equal(m.t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
	require.Equal(m.t, map[string]string{"tier": "gold"}, pv.Labels)
	m.t.Cleanup(func() { _ = m.client.Delete(context.Background(), pv) })
}

// ephemeralWithoutPod restores a Deployment without its pods: a claim that belongs to none of them would be useless.
func ephemeralWithoutPod(m *machine) {
	m.deploy()
	m.takeBackup(true)
	m.dropShop()
	r := m.restoreShop(func(spec *velerov1.RestoreSpec) { spec.ExcludedResources = []string{"pods"} })
	require.Contains(m.t, m.results("restores", r.Name), "it is the claim of an ephemeral volume of pod")
	pod := m.onlyPod() // a new one
	var claims corev1.PersistentVolumeClaimList
	require.NoError(m.t, m.client.List(m.t.Context(), &claims, client.InNamespace(m.shop)))
	require.Len(m.t, claims.Items, 1)
	require.True(m.t, metav1.IsControlledBy(&claims.Items[0], pod))
}

// retainedClaims has a StatefulSet that deletes its claims with it.
func retainedClaims(m *machine) {
	class, labels := csidriver.StorageClass, map[string]string{"app": "db"}
	spec := treePod("").Spec
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.shop, Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec,
			},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
					},
				}}},
		},
	}
	require.NoError(m.t, m.client.Create(m.t.Context(), set))
	m.tree(m.onlyPod(), "write", "/data")
	m.takeBackup(true)
	m.dropShop()
	r := m.restoreShop(nil)
	require.Equal(m.t, velerov1.RestorePhaseCompleted, r.Status.Phase, m.results("restores", r.Name))
	m.onlyPod()
	m.retry("the claim belongs to the StatefulSet", func(ctx context.Context) error {
		var claim corev1.PersistentVolumeClaim
		if err := m.client.Get(ctx, client.ObjectKey{Namespace: m.shop, Name: "data-db-0"}, &claim); err != nil {
			return err
		}
		if err := m.client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		for _, owner := range claim.OwnerReferences {
			if owner.UID == set.UID {
				return nil
			}
		}
		return fmt.Errorf("its owners are %v", claim.OwnerReferences)
	})
}

// ownApp starts a pod that runs as a user, who is the only one who may read its volume.
func (m *machine) ownApp(user int64) *corev1.Pod {
	m.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: m.shop}, Provisioner: csidriver.Name,
		Parameters: map[string]string{csidriver.OwnedBy: strconv.FormatInt(user, 10)}}
	require.NoError(m.t, m.client.Create(m.t.Context(), class))
	m.t.Cleanup(func() { _ = m.client.Delete(context.Background(), class) })
	require.NoError(m.t, m.client.Create(m.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.shop, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class.Name,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
			},
		},
	}))
	app := treePod("app")
	app.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user}
	app.Spec.Volumes = []corev1.Volume{claimed("data")}
	app.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "claimed", MountPath: "/claimed"}}
	m.startPod(app)
	dir := m.dir(m.shop)
	require.NoError(m.t, os.WriteFile(filepath.Join(dir, "ledger"), []byte("mine"), 0o600))
	require.NoError(m.t, os.Chown(filepath.Join(dir, "ledger"), int(user), int(user)))
	return app
}

// dir returns the directory of the volume of the claim data in a namespace.
func (m *machine) dir(namespace string) string {
	m.t.Helper()
	return m.plane.disks.Volume(m.volumeOf(namespace, "data").Spec.CSI.VolumeHandle)
}

func userOfPod(m *machine) {
	files := m.tree(m.ownApp(4242), "list", "/claimed")
	m.takeBackup(true)
	m.dropShop()
	r := m.restoreShop(nil)
	require.Equal(m.t, velerov1.RestorePhaseCompleted, r.Status.Phase, m.results("restores", r.Name))
	require.Equal(m.t, files, m.tree(m.onlyPod(), "list", "/claimed"))
}

func excludedClaim(m *machine) {
	m.claim("data", corev1.PersistentVolumeFilesystem)
	m.startApp()
	claim := &corev1.PersistentVolumeClaim{}
	require.NoError(m.t, m.client.Get(m.t.Context(), client.ObjectKey{Namespace: m.shop, Name: "data"}, claim))
	m.change(claim, func() { metav1.SetMetaDataLabel(&claim.ObjectMeta, velerov1.ExcludeFromBackupLabel, "true") })
	loads := m.loadsOf(m.t.Context(), m.takeBackup(true))
	require.Len(m.t, loads, 1)
	require.Equal(m.t, "empty", loads[0].Spec.Volume)
}
