package nodeagent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/test/csidriver"
)

// TestAcceptVolumes_MarkWithoutSpace restores pods that could not start if the end of the restore were a file in their
// volumes: a volume without a free inode, one whose root others may not read, one that the pod mounts read-only, and
// one that another pod has restored. The namespace has a LimitRange below the normal resources of the init container.
func TestAcceptVolumes_MarkWithoutSpace(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.runAgent()
	m.serve()
	helper := &corev1.ConfigMap{}
	require.NoError(t, m.client.Get(t.Context(), client.ObjectKey{Namespace: m.namespace, Name: "helper"}, helper))
	m.change(helper, func() { delete(helper.Data, "cpuLimit"); helper.Data["secCtxRunAsUser"] = "1000" })
	require.NoError(t, m.client.Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.shop, Name: "small"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
			Max: amounts("60m", "64Mi")}}},
	}))
	const owner = "4242"
	m.claimOf("full", map[string]string{csidriver.Inodes: "3"})
	m.claimOf("closed", map[string]string{csidriver.OwnedBy: owner})
	m.claimOf("passing", map[string]string{csidriver.OwnedBy: owner})
	m.claimOf("shared", nil)
	apps := []*corev1.Pod{m.noting("full", "full"), m.noting("closed", "closed"), m.noting("passing", "passing"),
		m.noting("one", "shared"), m.noting("two", "shared")}
	apps[0].Spec.Containers[0].Resources.Limits = amounts("50m", "48Mi")
	apps[3].Spec.Volumes[1].PersistentVolumeClaim.ReadOnly = true
	for _, app := range apps {
		app.Annotations = map[string]string{velerov1.VolumesToExcludeAnnotation: "notes"}
		m.startPod(app)
		require.Equal(t, "missing", m.noted(app))
	}
	m.fill(apps[0], "touch other")
	m.fill(apps[1], "chmod 700 .")
	m.fill(apps[2], "chmod 771 .")
	m.fill(apps[4], "") // the other pod mounts it read-only

	m.takeBackup(true)
	for _, app := range apps {
		require.NoError(t, m.client.Delete(t.Context(), app))
	}
	m.dropShop()
	r := m.restoreShop(nil)
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, m.results("restores", r.Name))
	for _, app := range apps {
		m.running(app)
		require.Equal(t, "there", m.noted(app), app.Name)
		wait := app.Spec.InitContainers[0]
		require.Equal(t, "restore-wait", wait.Name, app.Name)
		require.Equal(t, int64(1000), *wait.SecurityContext.RunAsUser)
		require.LessOrEqual(t, wait.Resources.Limits.Memory().Value(), int64(64<<20))
		require.NoDirExists(t, filepath.Join(m.mounts(app), "kubernetes.io~empty-dir/notes/.velero"))
		m.fill(app, "test ! -e .velero")
	}
	require.True(t, apps[3].Spec.Containers[0].VolumeMounts[1].ReadOnly)
	var loads velerov1.PodVolumeRestoreList
	require.NoError(t, m.client.List(t.Context(), &loads, client.InNamespace(m.namespace),
		client.MatchingLabels{velerov1.RestoreUIDLabel: string(r.UID)}))
	require.Len(t, loads.Items, 4, "the shared claim is restored once")

	// The volume in which a pod waits is no data of it.
	again := m.backUp(m.shop+"-again", velerov1.BackupSpec{IncludedNamespaces: []string{m.shop},
		DefaultVolumesToFsBackup: new(true)})
	require.Equal(t, velerov1.BackupPhaseCompleted, again.Status.Phase)
	require.NotContains(t, m.results("backups", again.Name), podclaims.WaitVolume)
	require.Len(t, m.loadsOf(t.Context(), again.Name), 4)

	// Resources that no pod of the namespace may have are one error, which says what to change.
	m.change(helper, func() { helper.Data["memLimit"] = "1Gi" })
	m.dropShop()
	refused := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: m.shop + "-refused"},
		Spec: velerov1.RestoreSpec{BackupName: m.shop, LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": "full"}}}}
	limits := &corev1.LimitRange{}
	require.NoError(t, m.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.shop}}))
	limits.Namespace, limits.Name = m.shop, "small"
	limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: amounts("60m", "64Mi")}}
	require.NoError(t, m.client.Create(t.Context(), limits))
	m.create(refused)
	require.Equal(t, velerov1.RestorePhasePartiallyFailed, m.restored(refused).Status.Phase)
	require.Equal(t, 1, refused.Status.Errors, m.results("restores", refused.Name))
	require.Contains(t, m.results("restores", refused.Name),
		"refuses init container restore-wait: its memory has the limit 1Gi")
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory)}
}

// claimOf creates a claim of volumes that several pods mount, of a class of its own.
func (m *machine) claimOf(name string, parameters map[string]string) {
	m.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: m.shop + "-" + name},
		Provisioner: csidriver.Name, Parameters: parameters, AllowVolumeExpansion: new(true)}
	require.NoError(m.t, m.client.Create(m.t.Context(), class))
	m.t.Cleanup(func() { _ = m.client.Delete(context.Background(), class) })
	require.NoError(m.t, m.client.Create(m.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.shop, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: &class.Name,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
			},
		},
	}))
}

// noting returns a pod that notes at its start whether the file "ledger" is in the volume of a claim.
func (m *machine) noting(name, claim string) *corev1.Pod {
	pod := treePod(name)
	pod.Labels = map[string]string{"app": name}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "notes", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, claimed(claim),
	}
	pod.Spec.Containers[0].Args = []string{"note", "/claimed/ledger", "/notes/note"}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "notes", MountPath: "/notes"},
		{Name: "claimed", MountPath: "/claimed"}}
	return pod
}

// mounts returns the directory in which the kubelet mounts the volumes of a pod.
func (m *machine) mounts(pod *corev1.Pod) string {
	return filepath.Join(m.cluster.Node.Kubelet, "pods", string(pod.UID), "volumes")
}

// noted returns what a pod has noted at its start.
func (m *machine) noted(pod *corev1.Pod) (note string) {
	m.t.Helper()
	m.eventually("pod "+pod.Name+" has noted", func() (bool, error) {
		text, err := os.ReadFile(filepath.Join(m.mounts(pod), "kubernetes.io~empty-dir/notes/note"))
		note = string(text)
		return note != "", err
	})
	return note
}

// fill writes the file ledger into the volume of the claim of a pod, and runs a command there.
func (m *machine) fill(pod *corev1.Pod, command string) {
	m.t.Helper()
	at := filepath.Join(m.root, string(pod.UID), "volumes/kubernetes.io~csi",
		m.volumeOf(m.shop, pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName).Name, "mount")
	script := strings.TrimSuffix("cd "+at+" && echo mine > ledger && "+command, " && ")
	out, err := m.onNode("sh", "-c", script).CombinedOutput()
	require.NoError(m.t, err, "%s", out)
}
