package hook

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/kubelet"
)

var shared = controlplane.Shared{Common: true}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// site is a namespace with pods that run on a kubelet of its own.
type site struct {
	config    *rest.Config
	kubelet   *kubelet.Kubelet
	executor  *Executor
	namespace string
}

func newSite(t *testing.T) *site {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", shared.Get(t).Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	s := &site{config: config, kubelet: kubelet.ForTest(t, config)}
	s.executor, err = NewExecutor(config, 0)
	require.NoError(t, err)
	namespace, err := s.executor.pods.Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hook-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.namespace = namespace.Name
	_, err = s.executor.pods.ServiceAccounts(s.namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	return s
}

// pod creates a pod with containers "app" and "side".
func (s *site) pod(t *testing.T, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"},
			{Name: "side", Image: "side"}}},
	}
	if change != nil {
		change(pod)
	}
	made, err := s.executor.pods.Pods(s.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	return made
}

// running creates a pod that is running and ready.
func (s *site) running(t *testing.T, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	made := s.pod(t, name, change)
	require.NoError(t, s.kubelet.Run(t.Context(), s.namespace, made.Name, true))
	pod, err := s.executor.pods.Pods(s.namespace).Get(t.Context(), made.Name, metav1.GetOptions{})
	require.NoError(t, err)
	return pod
}

// did returns the lines that commands have appended to the file "did" in the directory of a pod.
func (s *site) did(t *testing.T, pod string) []string {
	t.Helper()
	content, err := os.ReadFile(s.kubelet.Dir(s.namespace, pod) + "/did")
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

// does returns a command that appends a line to the file "did".
func does(line string) []string { return []string{"sh", "-c", "echo " + line + " >> did"} }
