package node

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// yieldFor is how long a position is reserved for the agent of an older load.
const yieldFor = 5 * time.Second

// turns records the agents to which this agent yields, so that the oldest load of the cluster gets the next position.
// It also records the agents that did not use a reserved position: they are passed over until they restart.
type turns struct {
	away     map[string]string   // by node: the process that is away
	yielding map[string]yielding // by node
	now      map[string]bool     // nodes that this pass has yielded to
}

type yielding struct {
	to    types.UID
	since time.Time
}

// turn returns the node of the agent that can accept a New load, or "" if that is not known or the load is not ready.
func (q *admission) turn(ctx context.Context, v *view, l *load) string {
	switch {
	case l.podLabel != "" || l.cancelled() || q.refusal(l) != "": // any agent can take it, or end it
		return v.ledger.Turn(l.GetUID(),
			func(node string) bool { return node != q.Node && q.turns.isAway(node, v.ledger.Agents[node]) })
	case l.spec.node != "":
		return l.spec.node
	}
	pod, err := q.pod(ctx, l)
	if err != nil || pod == nil || !waits(pod) {
		return ""
	}
	return q.Node
}

func (t *turns) isAway(node, process string) bool {
	away, known := t.away[node]
	if known && away != process {
		delete(t.away, node)
		return false
	}
	return known
}

// yield reports whether a position is reserved for the agent of another node, which can accept the load.
func (t *turns) yield(node string, v *view, l *load) bool {
	process, registered := v.ledger.Agents[node]
	if !registered || t.isAway(node, process) {
		return false
	}
	if t.now == nil {
		t.now = map[string]bool{}
	}
	if t.yielding == nil {
		t.yielding = map[string]yielding{}
	}
	first := !t.now[node]
	t.now[node] = true
	before, known := t.yielding[node]
	switch {
	case first && (!known || before.to != l.GetUID()):
		t.yielding[node] = yielding{to: l.GetUID(), since: v.now}
	case first && v.now.Sub(before.since) >= yieldFor:
		t.away[node] = process
		delete(t.yielding, node)
		return false
	}
	return true
}

// settle ends a pass. It removes the agents to which the pass did not yield: they have used their positions.
func (t *turns) settle() {
	for node := range t.yielding {
		if !t.now[node] {
			delete(t.yielding, node)
		}
	}
	t.now = nil
}
