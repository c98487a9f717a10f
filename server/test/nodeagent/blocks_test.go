package nodeagent_test

import (
	"regexp"
	"strings"
	"testing"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/test/csidriver"
)

// TestAcceptVolumes_Block moves the data of a block device and of files, which are one group, from a group snapshot to
// a repository of kopia, and restores both into another namespace, where a pod of a real kubelet reads the same bytes.
func TestAcceptVolumes_Block(t *testing.T) {
	t.Parallel()
	if _, err := onNode.Find(t); err != nil || !canMakeDevices(t) {
		t.Skipf("needs a kubelet and loop devices: %v", err)
	}
	m := newMachine(t)
	m.addKopia()
	m.groupClass()
	m.runAgent()
	m.serve("--features=EnableCSI", "--uploader-type=kopia")
	app := treePod("app")
	device := claimed("blocks")
	device.Name = "device"
	app.Spec.Volumes = []corev1.Volume{claimed("files"), device}
	app.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "claimed", MountPath: "/claimed"}}
	app.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: device.Name, DevicePath: "/dev/raw"}}
	m.claim("files", corev1.PersistentVolumeFilesystem)
	m.claim("blocks", corev1.PersistentVolumeBlock)
	for _, name := range []string{"files", "blocks"} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: m.shop, Name: name}}
		require.NoError(t, m.client.Patch(t.Context(), claim, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"velero.io/volume-group":"db"}}}`))))
	}
	m.startPod(app)
	m.tree(app, "write", "/claimed")
	m.tree(app, "fill", "/dev/raw")
	sees := func(app *corev1.Pod) (files []string, device string) {
		return keptByKopia(m.tree(app, "list", "/claimed")), m.tree(app, "sum", "/dev/raw")
	}
	files, sum := sees(app)
	require.Greater(t, len(files), 100)

	b := m.backUp("b", velerov1.BackupSpec{IncludedNamespaces: []string{m.shop}, SnapshotMoveData: new(true)})
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, m.results("backups", "b"))
	var infos []volumes.VolumeInfo
	m.read(&infos, "backups", "b", "b-volumeinfo.json.gz")
	moved := map[string]*volumes.MovementInfo{}
	for _, info := range infos {
		moved[info.PVCName] = info.DataMovement
		require.Equal(t, volumes.Succeeded, info.Result, info.PVCName)
	}
	require.Len(t, moved, 2)
	require.EqualValues(t, 16<<20, moved["blocks"].Size, "the whole device")
	require.NotEmpty(t, moved["files"].SnapshotHandle)
	var uploads velerov2alpha1.DataUploadList
	require.NoError(t, m.client.List(t.Context(), &uploads, client.InNamespace(m.namespace)))
	require.Len(t, uploads.Items, 2)
	for i := range uploads.Items {
		require.Equal(t, velerov1.KopiaDataMover, uploads.Items[i].Spec.DataMover)
	}
	m.leavesNothing(m.shop, "files")
	m.leavesNothing(m.shop, "blocks")

	into := m.shop + "-copy"
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "copy"}, Spec: velerov1.RestoreSpec{BackupName: "b",
		NamespaceMapping: map[string]string{m.shop: into}}}
	m.create(r)
	require.Equal(t, velerov1.RestorePhaseCompleted, m.restored(r).Status.Phase, m.results("restores", r.Name))
	restored := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: into, Name: "app"}}
	m.running(restored)
	filesAfter, sumAfter := sees(restored)
	require.Equal(t, files, filesAfter)
	require.Equal(t, sum, sumAfter)
	require.Equal(t, corev1.PersistentVolumeBlock, *m.volumeOf(into, "blocks").Spec.VolumeMode)
	m.leavesNothing(into, "files")
}

var hardLink = regexp.MustCompile(`"Same":"[^}]*"`)

// keptByKopia returns the files of a list as kopia keeps them, which is without FIFOs, hard links and names that are
// not UTF-8.
func keptByKopia(list string) (files []string) {
	for line := range strings.Lines(list) {
		if !strings.Contains(line, `"Mode":"p`) && !strings.Contains(line, "not UTF-8") {
			files = append(files, hardLink.ReplaceAllString(line, ""))
		}
	}
	return files
}

// groupClass creates a VolumeGroupSnapshotClass of the driver.
func (m *machine) groupClass() {
	m.t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&groupsnapshotv1.VolumeGroupSnapshotClass{
		TypeMeta: metav1.TypeMeta{APIVersion: groupsnapshotv1.SchemeGroupVersion.String(),
			Kind: "VolumeGroupSnapshotClass"},
		ObjectMeta: metav1.ObjectMeta{Name: m.shop}, Driver: csidriver.Name,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	})
	require.NoError(m.t, err)
	require.NoError(m.t, m.client.Create(m.t.Context(), &unstructured.Unstructured{Object: object}))
}
