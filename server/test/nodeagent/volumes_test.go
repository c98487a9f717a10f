package nodeagent_test

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/csidriver"
	"github.com/cleat-dev/cleat/server/test/pods"
)

// machine is a site whose only node is a real one, with a server, a CSI driver, and pods in a namespace of their own.
type machine struct {
	*files
	cluster *controlplane.Cluster
	shop    string // namespace
}

// newMachine returns a site on the node that the tests share.
func newMachine(t *testing.T) *machine {
	t.Helper()
	return newMachineOn(t, &onNode, newStorage(t, onNode.Get(t)))
}

func newMachineOn(t *testing.T, p *plane, in storage) *machine {
	t.Helper()
	cluster := p.Get(t)
	s := newEmptySite(t, p)
	s.onNode = func(program string, args ...string) *exec.Cmd {
		return pods.OnNode(context.Background(), cluster, program, args...)
	}
	s.nodes, s.root = []string{cluster.Node.Name}, "/var/lib/kubelet/pods"
	m := &machine{files: newFilesOn(t, s, in), cluster: cluster, shop: "shop-" + s.namespace}
	p.serveDisks(t, m.client)
	p.importImages(t)
	require.NoError(t, m.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.shop}}))
	return m
}

// runAgent runs the agent of the node, and creates a pod for it, like a DaemonSet. Pods that expose volumes have its
// image.
func (m *machine) runAgent() *agent {
	m.t.Helper()
	pod := treePod("node-agent")
	pod.Namespace, pod.Labels = m.namespace, map[string]string{"role": "node-agent"}
	pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Args = cleatImage, []string{"node-agent", "hold"}
	m.startPod(pod)
	return m.agent(m.nodes[0], "--host-pods", m.root, "--pod-name", pod.Name)
}

// claim creates a claim of a volume of the CSI driver.
func (m *machine) claim(name string, mode corev1.PersistentVolumeMode) {
	m.t.Helper()
	class := csidriver.StorageClass
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: m.shop, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class, VolumeMode: &mode,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
			},
		}}
	require.NoError(m.t, m.client.Create(m.t.Context(), claim))
}

// treePod returns a pod without volumes.
func treePod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "tree", Image: treeImage, Args: []string{"run"},
				ImagePullPolicy: corev1.PullNever}},
		},
	}
}

func claimed(claim string) corev1.Volume {
	return corev1.Volume{Name: "claimed", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// startPod creates a pod, in the shop if it has no namespace, and waits until it runs.
func (m *machine) startPod(pod *corev1.Pod) {
	m.t.Helper()
	pod.Namespace = cmp.Or(pod.Namespace, m.shop)
	// its service account may not exist yet
	m.retry("create pod "+pod.Name, func(ctx context.Context) error { return m.client.Create(ctx, pod) })
	m.running(pod)
}

// startApp starts a pod with files of all kinds in an empty volume and in the volume of the claim data.
func (m *machine) startApp() *corev1.Pod {
	m.t.Helper()
	app := treePod("app")
	app.Spec.Volumes = []corev1.Volume{
		{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, claimed("data"),
	}
	app.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "empty", MountPath: "/empty"},
		{Name: "claimed", MountPath: "/claimed"}}
	m.startPod(app)
	m.tree(app, "write", "/empty")
	m.tree(app, "write", "/claimed")
	return app
}

// running waits until a pod runs.
func (m *machine) running(pod *corev1.Pod) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		err := m.client.Get(m.t.Context(), client.ObjectKeyFromObject(pod), pod)
		return err == nil && pod.Status.Phase == corev1.PodRunning
	}, patience, 100*time.Millisecond, "%s", pod.Name)
}

// tree runs the program of a pod in it.
func (m *machine) tree(pod *corev1.Pod, args ...string) string {
	m.t.Helper()
	out, err := pods.Exec(m.t.Context(), m.cluster, pod.Namespace, pod.Name, append([]string{"/tree"}, args...)...)
	require.NoError(m.t, err)
	return string(out)
}

// list returns the pod's view of its files, in lines.
func (m *machine) list(pod *corev1.Pod) []string {
	m.t.Helper()
	return strings.Split(m.tree(pod, "list", "/empty")+m.tree(pod, "list", "/claimed"), "\n")
}

// requireRestored fails unless a pod sees the files that a list has, except for what kopia does not keep.
func (m *machine) requireRestored(list []string, pod *corev1.Pod) {
	m.t.Helper()
	require.Equal(m.t, strings.Split(pods.KeptByKopia(strings.Join(list, "\n")), "\n"), m.list(pod))
}

// backup backs up the volumes of the shop.
func (m *machine) backup(name string) {
	m.t.Helper()
	b := m.backUp(name, velerov1.BackupSpec{IncludedNamespaces: []string{m.shop}, DefaultVolumesToFsBackup: new(true)})
	require.Equal(m.t, velerov1.BackupPhaseCompleted, b.Status.Phase, m.results("backups", name))
	var stored []velerov1.PodVolumeBackup
	m.read(&stored, "backups", name, name+"-podvolumebackups.json.gz")
	require.Len(m.t, stored, 2)
	for _, one := range stored {
		require.Equal(m.t, velerov1.LoadPhaseCompleted, one.Status.Phase)
		require.Equal(m.t, one.Status.Progress.TotalBytes, one.Status.Progress.BytesDone)
	}
}

// restore restores a backup into a namespace, and returns its running pod.
func (m *machine) restore(backup, namespace string) *corev1.Pod {
	m.t.Helper()
	r := &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec:       velerov1.RestoreSpec{BackupName: backup, NamespaceMapping: map[string]string{m.shop: namespace}},
	}
	m.create(r)
	require.Equal(m.t, velerov1.RestorePhaseCompleted, m.restored(r).Status.Phase, m.results("restores", r.Name))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"}}
	m.running(pod)
	require.Equal(m.t, "restore-wait", pod.Spec.InitContainers[0].Name)
	return pod
}

// stored returns the number of bytes in the bucket.
func (m *machine) stored() int64 {
	m.t.Helper()
	return sizeOf(m.t, m.bucket)
}

// TestAcceptVolumes_FilesOfPods has a pod of a real kubelet that writes files of all kinds to an empty volume and one
// of a CSI driver. They are backed up twice, the namespace is deleted, and both states are restored: the program finds
// all its files unchanged, except for those that kopia cannot keep, of which the agent warns.
func TestAcceptVolumes_FilesOfPods(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	agent := m.runAgent()
	m.serve()
	m.claim("data", corev1.PersistentVolumeFilesystem)
	app := m.startApp()
	before := m.list(app)
	require.Greater(t, len(before), 240)

	m.backup("first")
	whole := m.stored()
	m.tree(app, "change", "/empty")
	changed := m.list(app)
	require.NotEqual(t, before, changed)
	m.backup("second")
	added := m.stored() - whole
	t.Logf("the first backup stored %d bytes, the second %d", whole, added)
	require.Greater(t, whole, int64(3<<20))
	require.Less(t, added, int64(200<<10), "the second backup must move what has changed only")

	require.NoError(t, m.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.shop}}))
	m.awaitUnmounted(app)
	m.retry("the namespace is deleted", func(ctx context.Context) error {
		err := m.client.Get(ctx, client.ObjectKey{Name: m.shop}, new(corev1.Namespace))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("it exists"))
	})
	m.requireRestored(changed, m.restore("second", m.shop))
	m.requireRestored(before, m.restore("first", m.shop+"-earlier"))
	for _, lost := range []string{"1 FIFOs, sockets or devices", "2 files have several names"} {
		require.Contains(t, agent.log.String(), lost)
	}
}

// awaitUnmounted waits until the kubelet has no volume of a deleted pod any more.
func (m *machine) awaitUnmounted(pod *corev1.Pod) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		_, err := os.Stat(filepath.Join(m.cluster.Node.Kubelet, "pods", string(pod.UID)))
		return errors.Is(err, fs.ErrNotExist)
	}, patience, 100*time.Millisecond, "the kubelet must remove the volumes of %s", pod.Name)
}

// TestPodsUseBlockVolumes has a pod that writes to a block volume of the CSI driver, and another one that reads it.
func TestPodsUseBlockVolumes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.claim("raw", corev1.PersistentVolumeBlock)
	start := func(name string) *corev1.Pod {
		pod := treePod(name)
		pod.Spec.Volumes = []corev1.Volume{claimed("raw")}
		pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "claimed", DevicePath: "/dev/raw"}}
		m.startPod(pod)
		return pod
	}
	writer := start("writer")
	empty := m.tree(writer, "sum", "/dev/raw")
	m.tree(writer, "fill", "/dev/raw")
	written := m.tree(writer, "sum", "/dev/raw")
	require.NotEqual(t, empty, written)
	require.NoError(t, m.client.Delete(t.Context(), writer))
	m.awaitUnmounted(writer)
	require.Equal(t, written, m.tree(start("reader"), "sum", "/dev/raw"))
}
