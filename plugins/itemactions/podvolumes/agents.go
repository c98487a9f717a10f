package podvolumes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/nodeagents"
)

// agentDelay is how long a node may have no pod of a node agent: it may be a new node, or the agent may be replaced.
const agentDelay = time.Minute

// movingDelay is how long it may have none while data is moved, which a pod does that outlives the agent.
const movingDelay = 10 * time.Minute

// listAge is for how long a list of the pods of agents is used to check open operations.
const listAge = 5 * time.Second

// agents has the states of the node agents, by their pods. It is safe for concurrent use.
type agents struct {
	mu     sync.Mutex
	listed time.Time
	pods   []corev1.Pod
	away   map[string]time.Time // operations whose agent has no pod, and since when
}

func listAgents(ctx context.Context, api client.Client, namespace string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := api.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{nodeagents.RoleLabel: nodeagents.Role}); err != nil {
		return nil, fmt.Errorf("list the pods of node agents: %w", err)
	}
	return list.Items, nil
}

// checkAgent returns an error with the remedy, unless the node agent of a node is ready. Any agent counts if node is
// empty.
func checkAgent(ctx context.Context, api client.Client, namespace, node string) error {
	pods, err := listAgents(ctx, api, namespace)
	if err != nil {
		return err
	}
	if why, _ := state(pods, namespace, node); why != "" {
		return framework.Errorf("%s", why)
	}
	return nil
}

// missed checks the agent of the node of an open operation with some loads. why has the remedy if the agent is not
// ready; long reports whether it has had no pod for so long that the operation should end.
func (a *agents) missed(
	ctx context.Context, api client.Client, namespace, node, operation string, loads []load,
) (why string, long bool, err error) {
	delay := agentDelay
	for _, l := range loads {
		if l.status.Phase == velerov1.LoadPhaseInProgress {
			delay = movingDelay
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.listed) > listAge {
		if a.pods, err = listAgents(ctx, api, namespace); err != nil {
			return "", false, err
		}
		a.listed = now
	}
	why, found := state(a.pods, namespace, node)
	if why == "" || found {
		delete(a.away, operation)
		return why, false, nil
	}
	since, known := a.away[operation]
	if !known {
		if a.away == nil {
			a.away = map[string]time.Time{}
		}
		a.away[operation], since = now, now
	}
	return why, now.Sub(since) >= delay, nil
}

// ended forgets an operation.
func (a *agents) ended(operation string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.away, operation)
}

// state returns the remedy for the node agent of a node, "" if it is ready. Any agent counts if node is empty. found
// reports whether the agent has a pod there, or is being replaced.
func state(agents []corev1.Pod, namespace, node string) (why string, found bool) {
	if velero := nodeagents.FindVelero(agents, node); velero != nil {
		return fmt.Sprintf("pod %s/%s on node %s is a node agent of Velero, which would take the volumes from cleat's; "+
			"\"cleat takeover start\" replaces the agents of Velero", namespace, velero.Name, velero.Spec.NodeName), true
	}
	if len(agents) == 0 {
		why = fmt.Sprintf("namespace %s has no node agents, which move the data of volumes; install them with cleat "+
			"install --use-node-agent", namespace)
		if node != "" {
			why += "; the pod runs on node " + node
		}
		return why, false
	}
	if node == "" {
		return "", true
	}
	for i := range agents {
		agent := &agents[i]
		if agent.Spec.NodeName != node {
			continue
		}
		switch {
		case agent.DeletionTimestamp != nil:
			why = fmt.Sprintf("its pod %s/%s is being deleted", namespace, agent.Name)
		case agent.Status.Phase == corev1.PodRunning && !isUnready(agent):
			return "", true
		default:
			why = fmt.Sprintf("its pod %s/%s is %s and not ready; kubectl describe pod and kubectl logs say why", namespace,
				agent.Name, agent.Status.Phase)
		}
	}
	if why == "" {
		return fmt.Sprintf("no node agent runs on node %s, which moves the data of its volumes; see whether DaemonSet "+
			"%s/node-agent selects the node and tolerates its taints", node, namespace), false
	}
	return fmt.Sprintf("the node agent of node %s is not at work: %s", node, why), true
}

func isUnready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse
	})
}
