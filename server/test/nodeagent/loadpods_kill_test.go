package nodeagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/node/loadpod"
)

// movingKubelet plays the kubelet for pods that move loads: they run, and end with a result. The first attempt of a
// load whose name begins with "lost" is killed for its memory.
type movingKubelet struct {
	*site
	node string

	mu   sync.Mutex
	pods map[string]map[types.UID]bool // by the names of pods
}

func (s *site) playMovingKubelet(node string) *movingKubelet {
	k := &movingKubelet{site: s, node: node, pods: map[string]map[types.UID]bool{}}
	ctx := s.t.Context()
	go func() {
		for ctx.Err() == nil {
			var list corev1.PodList
			if s.client.List(ctx, &list, client.InNamespace(s.namespace), client.HasLabels{loadLabel}) == nil {
				for i := range list.Items {
					k.advance(ctx, &list.Items[i])
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return k
}

// advance takes a pod one step further. Errors are of objects that have changed.
func (k *movingKubelet) advance(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	if k.pods[pod.Name] == nil {
		k.pods[pod.Name] = map[types.UID]bool{}
	}
	k.pods[pod.Name][pod.UID] = true
	k.mu.Unlock()
	switch {
	case pod.DeletionTimestamp != nil:
		_ = k.client.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case pod.Spec.NodeName == "":
		_ = k.client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Target:     corev1.ObjectReference{Kind: "Node", Name: k.node}})
	case pod.Status.Phase == corev1.PodPending:
		pod.Status.Phase = corev1.PodRunning
		_ = k.client.Status().Update(ctx, pod)
	case pod.Status.Phase == corev1.PodRunning:
		of, end := metav1.GetControllerOf(pod), &corev1.ContainerStateTerminated{}
		if strings.HasPrefix(of.Name, "lost") && strings.HasSuffix(pod.Name, "-1") {
			pod.Status.Phase, end.ExitCode, end.Reason = corev1.PodFailed, 137, "OOMKilled"
		} else {
			text, _ := json.Marshal(loadpod.Result{ID: strings.TrimPrefix(pod.Name, "move-"), SnapshotID: "of-" + pod.Name,
				Bytes: 5})
			pod.Status.Phase, end.Message = corev1.PodSucceeded, string(text)
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "move",
			State: corev1.ContainerState{Terminated: end}}}
		_ = k.client.Status().Update(ctx, pod)
	}
}

// agentInPod creates a pod of an agent, whose arguments are those of an agent.
func (s *site) agentInPod(node string) string {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "agent"}, Spec: corev1.PodSpec{
		NodeName: node, AutomountServiceAccountToken: new(false), Containers: []corev1.Container{
			{Name: "node-agent", Image: "cleat.invalid/cleat:1", Args: []string{"node-agent", "server"}},
		}}}
	s.retry("create the pod of the agent", func(ctx context.Context) error { return s.client.Create(ctx, pod) })
	return pod.Name
}

// TestAcceptVolumes_KillEverywhereInPods kills an agent after each of its writes, before it gets the reply. The next
// one completes every load. No attempt has two pods, and no pod remains.
func TestAcceptVolumes_KillEverywhereInPods(t *testing.T) {
	t.Parallel()
	const all, step = 20, 3 // more than the writes of both loads
	s := newSite(t, 1)
	node := s.nodes[0]
	s.configure(`{"loadConcurrency": {"globalConfig": 2, "prepareQueueLength": 1}}`)
	kubelet := s.playMovingKubelet(node)
	in := s.agentInPod(node)
	killed, runs := 0, 0
	for at := 1; at <= all; at += step {
		runs++
		lost, plain := s.backup(fmt.Sprintf("lost-%d", at), node), s.backup(fmt.Sprintf("plain-%d", at), node)
		s.create(lost, plain)
		var first *agent
		started := make(chan struct{})
		g, kubeconfig := s.newGate(at, func() { <-started; first.kill() })
		first = s.agent(node, "--kubeconfig", kubeconfig, "--pod-name", in)
		close(started)
		s.awaitEndOf(first, lost.Name, plain.Name)
		first.kill()
		g.mu.Lock()
		if len(g.writes) >= at {
			killed++
		}
		g.mu.Unlock()
		second := s.agent(node, "--pod-name", in)
		for load, attempt := range map[*velerov1.PodVolumeBackup]string{lost: "2", plain: "1"} {
			s.awaitPhase("PodVolumeBackup/"+load.Name, velerov1.LoadPhaseCompleted)
			require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(load), load))
			require.Equal(t, attempt, attemptOf(load))
			require.Equal(t, fmt.Sprintf("of-move-%s-%s", load.UID, attempt), load.Status.SnapshotID)
		}
		s.retry("no pod remains", func(ctx context.Context) error {
			var list corev1.PodList
			err := s.client.List(ctx, &list, client.InNamespace(s.namespace), client.HasLabels{loadLabel})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%s is there", list.Items[0].Name)
			}
			return err
		})
		second.kill()
	}
	require.Greater(t, killed, 4)
	kubelet.mu.Lock()
	defer kubelet.mu.Unlock()
	for name, made := range kubelet.pods {
		require.Len(t, made, 1, name)
	}
	require.Len(t, kubelet.pods, 3*runs)
}
