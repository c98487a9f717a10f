package pods_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/pods"
	"github.com/cleat-dev/cleat/server/test/programs"
)

var plane = controlplane.Shared{Options: controlplane.Options{Node: true}}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// TestPodsRunOnTheNode runs a pod from an image that was made here, with a volume, a command through the API server,
// and its end.
func TestPodsRunOnTheNode(t *testing.T) {
	t.Parallel()
	cluster := plane.Get(t)
	const image = "tree.invalid/tree:1"
	require.NoError(t, pods.Import(t.Context(), cluster, image, programs.Build(t, "server/test/pods/testdata/tree")))
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	require.NoError(t, err)
	core, err := corev1client.NewForConfig(config)
	require.NoError(t, err)
	client := core.Pods("default")
	pod, err := client.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "tree", Image: image, Args: []string{"run"}, ImagePullPolicy: corev1.PullNever,
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	until := func(phase corev1.PodPhase) {
		t.Helper()
		require.Eventually(t, func() bool {
			pod, err = client.Get(t.Context(), "one", metav1.GetOptions{})
			return err == nil && pod.Status.Phase == phase
		}, 10*time.Minute, 100*time.Millisecond, "%v", pod)
	}
	until(corev1.PodRunning)
	require.Equal(t, cluster.Node.Name, pod.Spec.NodeName)

	_, err = pods.Exec(t.Context(), cluster, "default", "one", "/tree", "write", "/data")
	require.NoError(t, err)
	_, err = pods.Exec(t.Context(), cluster, "default", "one", "/tree", "list", "/nowhere")
	require.ErrorContains(t, err, "no such file or directory")
	require.ErrorContains(t, err, "exit code 1")
	listed, err := pods.Exec(t.Context(), cluster, "default", "one", "/tree", "list", "/data")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(listed)), "\n")
	require.Greater(t, len(lines), 120)

	volume := filepath.Join("pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/data")
	require.FileExists(t, filepath.Join(cluster.Node.Kubelet, volume, "large"))
	onNode, err := pods.OnNode(t.Context(), cluster, programs.Build(t, "server/test/pods/testdata/tree"), "list",
		filepath.Join("/var/lib/kubelet", volume)).CombinedOutput()
	require.NoError(t, err, "%s", onNode)
	require.Equal(t, string(listed), string(onNode), "the node must see what the pod does")

	require.NoError(t, client.Delete(t.Context(), "one", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(cluster.Node.Kubelet, "pods", string(pod.UID)))
		return os.IsNotExist(err)
	}, 10*time.Minute, 100*time.Millisecond, "the kubelet must remove the volumes of a pod")
}
