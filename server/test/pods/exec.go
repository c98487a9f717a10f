package pods

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// Exec runs a command in the first container of a pod and returns its standard output. The error of a failed command
// contains its standard error.
func Exec(
	ctx context.Context, cluster *controlplane.Cluster, namespace, pod string, command ...string,
) ([]byte, error) {
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	url := client.RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
		return nil, fmt.Errorf("exec %q in pod %s/%s: %w: %s", command, namespace, pod, err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// OnNode returns a command that runs a program of the machine among the mounts and processes of the node, where the
// volumes of pods are in /var/lib/kubelet/pods. It uses the network of the machine, so that it reaches other clusters,
// too. It has a process group of its own, because nsenter remains its parent, and ends with the node. Paths are
// absolute.
func OnNode(ctx context.Context, cluster *controlplane.Cluster, program string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(cluster.Node.PID), "--mount", "--pid", "--", program}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
