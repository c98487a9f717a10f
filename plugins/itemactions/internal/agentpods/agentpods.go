// Package agentpods tells whether the node agents that are to move the data of volumes are at work, by their pods. It
// imports framework and the client of controller-runtime.
package agentpods

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/nodeagents"
)

const (
	// Delay is how long there may be no pod of a node agent: its node may be new, or the agent may be replaced.
	Delay = time.Minute
	// MovingDelay is how long there may be none while data is moved, which a pod does that outlives the agent, and how
	// long none of all agents may be ready.
	MovingDelay = 10 * time.Minute

	// listAge is for how long a list of the pods of agents is used to check open operations.
	listAge = 5 * time.Second
)

// Watch has the states of the node agents for open operations. It is safe for concurrent use.
type Watch struct {
	mu     sync.Mutex
	listed time.Time
	pods   []corev1.Pod
	away   map[string]time.Time // operations whose agent has no pod, and since when
}

func list(ctx context.Context, api client.Client, namespace string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := api.List(ctx, &pods, client.InNamespace(namespace),
		client.MatchingLabels{nodeagents.RoleLabel: nodeagents.Role}); err != nil {
		return nil, fmt.Errorf("list the pods of node agents: %w", err)
	}
	return pods.Items, nil
}

// Check returns an error with the remedy, unless the node agent of a node is ready. Any agent counts if node is empty.
func Check(ctx context.Context, api client.Client, namespace, node string) error {
	pods, err := list(ctx, api, namespace)
	if err != nil {
		return err
	}
	if why, _ := State(pods, namespace, node); why != "" {
		return framework.Errorf("%s", why)
	}
	return nil
}

// CheckAny returns an error with the remedy if there is no agent that moves the data of CSI snapshots. It is no error that
// the agents are not ready, as during an upgrade.
func CheckAny(ctx context.Context, api client.Client, namespace string) error {
	pods, err := list(ctx, api, namespace)
	if err != nil {
		return err
	}
	if why, found := nodeagents.NotAtWork(pods, namespace); !found {
		return framework.Errorf("%s", why)
	}
	return nil
}

// Missed checks the agent of the node of an open operation, or all agents of cleat if node is empty. why has the
// remedy if it is not ready; long reports whether that is so for so long that the operation should end. moving says that
// data is moved.
func (w *Watch) Missed(
	ctx context.Context, api client.Client, namespace, node, operation string, moving bool,
) (why string, long bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.listed) > listAge {
		if w.pods, err = list(ctx, api, namespace); err != nil {
			return "", false, err
		}
		w.listed = now
	}
	why, found := nodeagents.NotAtWork(w.pods, namespace)
	if node != "" {
		why, found = State(w.pods, namespace, node)
	}
	if why == "" || found && node != "" {
		delete(w.away, operation)
		return why, false, nil
	}
	since, known := w.away[operation]
	if !known {
		if w.away == nil {
			w.away = map[string]time.Time{}
		}
		w.away[operation], since = now, now
	}
	delay := Delay
	if moving || found {
		delay = MovingDelay
	}
	return why, now.Sub(since) >= delay, nil
}

// Ended forgets an operation.
func (w *Watch) Ended(operation string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.away, operation)
}

// State returns the remedy for the node agent of a node, "" if it is ready. If node is empty, it is enough that there is
// an agent. found reports whether the agent has a pod there, or is being replaced.
func State(agents []corev1.Pod, namespace, node string) (why string, found bool) {
	if velero := nodeagents.FindVelero(agents, node); velero != nil {
		return fmt.Sprintf("pod %s/%s on node %s is a node agent of Velero, which would take the volumes from cleat's; "+
			"\"cleat takeover start\" replaces the agents of Velero", namespace, velero.Name, velero.Spec.NodeName), true
	}
	if len(agents) == 0 {
		why = nodeagents.None(namespace)
		if node != "" {
			why += "; the pod runs on node " + node
		}
		return why, false
	}
	if node == "" {
		return "", true
	}
	for i := range agents {
		if agents[i].Spec.NodeName != node {
			continue
		}
		if why, found = nodeagents.Unready(&agents[i]), true; why == "" {
			return "", true
		}
	}
	if !found {
		return fmt.Sprintf("no node agent runs on node %s, which moves the data of its volumes; see whether DaemonSet "+
			"%s/node-agent selects the node and tolerates its taints", node, namespace), false
	}
	return fmt.Sprintf("the node agent of node %s is not at work: %s", node, why), true
}
