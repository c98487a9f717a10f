package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	agentNode     = "bench-node"
	agentSettings = "agents"
)

// addNode creates a node, and the settings of its agent in the agent's namespace: the number of loads that prepare at
// once.
func addNode(ctx context.Context, c client.Client, namespace string, places int) error {
	return errors.Join(
		c.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: agentNode}}),
		c.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: agentSettings},
			Data:       map[string]string{"json": fmt.Sprintf(`{"loadConcurrency": {"prepareQueueLength": %d}}`, places)},
		}),
	)
}

// agent returns the command of a node agent. pods is the kubelet's directory of pods.
func (s *site) agent(ctx context.Context, kubeconfig, namespace, pods, plugins string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Cleat, "node-agent", "server", "--kubeconfig", kubeconfig, "--namespace", namespace,
		"--node-name", agentNode,
		"--host-pods", pods, "--plugin-dir", plugins, "--metrics-address", "0", "--profiler-address", "", "--scratch-dir",
		s.WorkDir,
		"--node-agent-configmap", agentSettings, "--log-level", "error")
	cmd.Stderr = os.Stderr
	return cmd
}
