package nodeagent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/pods"
)

// TestAcceptVolumes_CSIDataMoved moves the data of CSI snapshots to a repository and into another cluster, with
// real kubelets and controllers of snapshots and volumes, and kills the exposers after each of their writes. No
// snapshots and exposed volumes remain, whatever happens.
func TestAcceptVolumes_CSIDataMoved(t *testing.T) {
	t.Parallel()
	t.Run("there and back", csiThereAndBack)
	t.Run("deleted with their backups", csiDeletions)
	t.Run("ends in each phase", csiEndsEverywhere)
	t.Run("canceled while a volume is made", csiCanceledWhileVolumeIsMade)
	t.Run("prepare time-outs", csiPrepareTimeouts)
	t.Run("names that are taken", csiTakenNames)
	t.Run("delayed binding", csiDelayedBinding)
	t.Run("configured claims", csiConfiguredClaims)
	t.Run("a node that is lost", csiLostNode)
	t.Run("least privilege", csiOfLeastPrivilege)
	t.Run("uploads of killed agents", csiUploadsOfKilledAgents)
	t.Run("downloads of killed agents", csiDownloadsOfKilledAgents)
}

// canMakeDevices reports whether block devices can be made from files, and logs the reason if not.
func canMakeDevices(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("losetup", "-f").CombinedOutput()
	if err != nil || os.Getuid() != 0 {
		t.Logf("block volumes are left out, because this machine makes no loop devices for this user: %s", out)
		return false
	}
	return true
}

// csiThereAndBack backs up volumes, of files and of blocks, by their snapshots, and restores them.
func csiThereAndBack(t *testing.T) {
	t.Parallel()
	if _, err := onNode.Find(t); err != nil {
		t.Logf("the kubelets are directories, and the restore is into the same cluster: %v", err)
		csiOnDirectories(t, func(*volumeSite) {})
		return
	}
	csiIntoAnotherCluster(t)
}

// csiIntoAnotherCluster moves the data of volumes, to which pods of a real kubelet write, to a bucket elsewhere. Then
// the cluster no longer exists. Another one gets only the bucket and the password of the repository. Its pods read the
// same bytes.
func csiIntoAnotherCluster(t *testing.T) {
	old := &plane{Shared: controlplane.Shared{Options: controlplane.Options{Node: true,
		CSISocket: filepath.Join(t.TempDir(), "csi.sock")}}}
	t.Cleanup(func() { require.Zero(t, old.Stop()) })
	bucket := newStorage(t, onNode.Get(t))
	m := newMachineOn(t, old, bucket)
	password := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "velero-repo-credentials"},
		Data: map[string][]byte{"repository-password": []byte(rand.Text())}}
	kept := password.DeepCopy()
	m.create(password)
	m.runAgent()
	m.serve("--features=EnableCSI")
	blocks := canMakeDevices(t)
	app := treePod("app")
	app.Spec.Volumes = []corev1.Volume{claimed("files")}
	app.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "claimed", MountPath: "/claimed"}}
	m.claim("files", corev1.PersistentVolumeFilesystem)
	if blocks {
		m.claim("blocks", corev1.PersistentVolumeBlock)
		device := claimed("blocks")
		device.Name = "device"
		app.Spec.Volumes = append(app.Spec.Volumes, device)
		app.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: device.Name, DevicePath: "/dev/raw"}}
	}
	m.startPod(app)
	sees := func(m *machine, app *corev1.Pod) (files []string, device string) {
		if blocks {
			device = m.tree(app, "sum", "/dev/raw")
		}
		return strings.Split(pods.KeptByKopia(m.tree(app, "list", "/claimed")), "\n"), device
	}
	m.tree(app, "write", "/claimed")
	if blocks {
		m.tree(app, "fill", "/dev/raw")
	}
	files, device := sees(m, app)
	require.Greater(t, len(files), 120)

	b := m.backUp("b", velerov1.BackupSpec{IncludedNamespaces: []string{m.shop}, SnapshotMoveData: new(true)})
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, m.results("backups", "b"))
	var infos []volumes.VolumeInfo
	m.read(&infos, "backups", "b", "b-volumeinfo.json.gz")
	m.checkMoved(b, m.shop, infos, 3<<20)
	m.leavesNothing(m.shop, "files")
	require.Zero(t, old.Stop())
	require.NoDirExists(t, m.cluster.Dir)

	n := newMachineOn(t, &onNode, bucket)
	n.create(kept)
	n.runAgent()
	n.serve("--features=EnableCSI", "--backup-sync-period=1s")
	n.retry("the backup is in the cluster", func(ctx context.Context) error {
		return n.client.Get(ctx, client.ObjectKey{Namespace: n.namespace, Name: "b"}, new(velerov1.Backup))
	})
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "again"}, Spec: velerov1.RestoreSpec{BackupName: "b"}}
	n.create(r)
	require.Equal(t, velerov1.RestorePhaseCompleted, n.restored(r).Status.Phase, n.results("restores", r.Name))
	restored := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.shop, Name: "app"}}
	n.running(restored)
	after, deviceAfter := sees(n, restored)
	require.Equal(t, files, after)
	require.Equal(t, device, deviceAfter)
	n.leavesNothing(m.shop, "files")
}

// checkMoved checks the records about the volume of the claim files, whose data, of at least size bytes, a backup has
// moved.
func (s *site) checkMoved(b *velerov1.Backup, shop string, infos []volumes.VolumeInfo, size int64) {
	s.t.Helper()
	var source corev1.PersistentVolumeClaim
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: shop, Name: "files"}, &source))
	var uploads velerov2alpha1.DataUploadList
	require.NoError(s.t, s.client.List(s.t.Context(), &uploads, client.InNamespace(s.namespace),
		client.MatchingLabels{velerov1.PVCUIDLabel: string(source.UID)}))
	require.Len(s.t, uploads.Items, 1)
	upload := &uploads.Items[0]
	operation := velerov1.ValidLabelValue("du-" + string(b.UID) + "." + string(source.UID))
	require.Regexp(s.t, `^b-.{5}$`, upload.Name)
	require.True(s.t, metav1.IsControlledBy(upload, b))
	require.Equal(s.t, map[string]string{
		velerov1.BackupNameLabel: "b", velerov1.BackupUIDLabel: string(b.UID), velerov1.PVCUIDLabel: string(source.UID),
		velerov1.AsyncOperationIDLabel: operation,
	}, upload.Labels)
	require.Equal(s.t, velerov1.KopiaDataMover, upload.Spec.DataMover)
	var info *volumes.VolumeInfo
	for _, one := range infos {
		if one.PVCName == "files" {
			info = &one
		}
	}
	require.NotNil(s.t, info)
	require.Equal(s.t, &volumes.MovementInfo{
		DataMover: velerov1.VeleroDataMover, UploaderType: "kopia", RetainedSnapshot: upload.Spec.CSISnapshot.VolumeSnapshot,
		SnapshotHandle: upload.Status.SnapshotID,
		OperationID:    operation, Size: upload.Status.Progress.TotalBytes, IncrementalSize: upload.Status.IncrementalBytes,
		Phase: velerov1.LoadPhaseCompleted,
	}, info.DataMovement)
	require.Equal(s.t, []any{true, false, volumes.Succeeded}, []any{info.SnapshotDataMoved, info.PreserveLocalSnapshot,
		info.Result})
	require.NotEmpty(s.t, upload.Status.SnapshotID)
	require.GreaterOrEqual(s.t, upload.Status.Progress.TotalBytes, size)
}

// csiOnDirectories restores into another namespace of the same cluster.
func csiOnDirectories(t *testing.T, prepare func(*volumeSite)) *volumeSite {
	v := newVolumeSite(t, 2)
	v.useKopia()
	prepare(v)
	v.configure(`{"podResources": {"cpuRequest": "10m"}, "podLabels": {"team": "storage"}, "loadAffinity": [{"nodeSelector": {"matchLabels": {"disk": "ssd"}}}]}`)
	v.claim("files", corev1.PersistentVolumeFilesystem)
	files := v.dir(v.shop, "files")
	require.NoError(t, os.MkdirAll(filepath.Join(files, "deep"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(files, "deep", "data"), bytes.Repeat([]byte("before"), 1000), 0o640))
	device := bytes.Repeat([]byte("block by block. "), deviceSize/16)
	blocks := canMakeDevices(t)
	if blocks {
		v.claim("blocks", corev1.PersistentVolumeBlock)
		require.NoError(t, os.WriteFile(filepath.Join(v.dir(v.shop, "blocks"), "device"), device, 0o600))
	}
	v.agents()
	v.serve()

	b := &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "b"},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{v.shop}, StorageLocation: "default",
			SnapshotMoveData: new(true), DataMover: "velero"},
	}
	require.NoError(t, v.client.Create(t.Context(), b))
	text := v.ended(b, func() string { return string(b.Status.Phase) }, "backups/b/b-results.gz")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, text)
	v.leavesNothing(v.shop, "files")

	v.checkMoved(b, v.shop, readJSON[[]volumes.VolumeInfo](v, "backups", "b", "b-volumeinfo.json.gz"), 6000)

	r := &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "r2"},
		Spec:       velerov1.RestoreSpec{BackupName: "b", NamespaceMapping: map[string]string{v.shop: v.shop + "-copy"}},
	}
	require.NoError(t, v.client.Create(t.Context(), r))
	text = v.ended(r, func() string { return string(r.Status.Phase) }, "restores/r2/restore-r2-results.gz")
	require.Equal(t, velerov1.RestorePhaseCompleted, r.Status.Phase, text)
	data, err := os.ReadFile(filepath.Join(v.dir(v.shop+"-copy", "files"), "deep", "data"))
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte("before"), 1000), data)
	if blocks {
		file, err := os.Open(filepath.Join(v.dir(v.shop+"-copy", "blocks"), "device"))
		require.NoError(t, err)
		defer file.Close()
		data = make([]byte, len(device)) // the restored device is larger
		_, err = io.ReadFull(file, data)
		require.NoError(t, err)
		require.True(t, bytes.Equal(device, data), "the bytes of the block volume differ")
	}
	pv := v.volume(v.shop+"-copy", "files")
	require.Equal(t, corev1.PersistentVolumeReclaimDelete, pv.Spec.PersistentVolumeReclaimPolicy)
	require.NotContains(t, pv.Annotations, "cleat.dev/reclaim-policy")
	v.leavesNothing(v.shop, "files")
	return v
}
