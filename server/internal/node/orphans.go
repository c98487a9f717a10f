package node

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/server/internal/node/ledger"
)

const (
	// returnGrace is how long after the prepare timeout the agent that has accepted a load may still end it.
	returnGrace = time.Minute
	// nodeCheck is the time between two checks of whether the node of another agent's load exists, with up to
	// nodeCheckers agents. With more agents the time grows, so that a large cluster sends no more requests for a node
	// than a small one.
	nodeCheck    = 30 * time.Second
	nodeCheckers = 10
)

// guard ends a load of another agent whose node no longer exists, or that has been Accepted for too long. All agents
// guard all loads; the first write ends a load.
func (m *machine) guard(ctx context.Context, l *load) (time.Duration, error) {
	node := cmp.Or(l.node(), l.acceptedBy())
	if _, err := m.Movers.Find(l.spec.mover, hostpath.Volume{}); err != nil || node == "" || node == m.Node {
		return 0, nil //nolint:nilerr // not a load of these agents, or edited by hand
	}
	gone, again, err := m.nodeGone(ctx, node)
	if err != nil {
		return 0, err
	}
	if gone {
		had := "which had its volume"
		if l.node() == "" {
			had = "whose agent has accepted it"
		}
		return 0, m.lostNode(ctx, l, fmt.Sprintf("node %s, %s, does not exist any more", node, had))
	}
	if l.phase() != velerov1.LoadPhaseAccepted {
		return again, nil
	}
	if left := m.PrepareTimeout + returnGrace - m.Now().Sub(l.acceptedAt()); left > 0 {
		return min(again, left), nil
	}
	_, err = m.end(ctx, l, failed(fmt.Sprintf("timeout on preparing %s: the agent of node %s, which has accepted it, "+
		"did not prepare it within %s and does not respond", l.name, l.acceptedBy(), m.PrepareTimeout)))
	return 0, err
}

// lostNode continues a load whose node no longer exists. The volume of a pod is gone with its node. That of a
// DataUpload or DataDownload can be exposed again elsewhere.
func (m *machine) lostNode(ctx context.Context, l *load, why string) error {
	if l.podLabel != "" && !l.cancelled() && l.phase() != velerov1.LoadPhaseCanceling {
		moved, err := m.isMoved(ctx, l)
		switch {
		case err != nil:
			return err
		case !moved:
			return m.exposeAgain(ctx, l, interrupted(why))
		case l.phase() == velerov1.LoadPhaseInProgress:
			_, err := m.end(ctx, l, m.wasMoved(l))
			return err
		}
	}
	_, err := m.end(ctx, l, failed(why))
	return err
}

// nodeGone reports whether a node no longer exists, as of the last check, and the time until the next call.
func (a *Agent) nodeGone(ctx context.Context, name string) (gone bool, again time.Duration, err error) {
	again, known := a.others.wait(name, a.Now())
	if again > 0 {
		return false, again, nil
	}
	agents, err := a.agents(ctx)
	if err != nil {
		return false, 0, err
	}
	again = nodeCheck * time.Duration(max(agents, nodeCheckers)) / nodeCheckers
	if !known && agents > nodeCheckers { // agents begin at different times
		again = rand.N(again)
		a.others.look(name, a.Now().Add(again))
		return false, again, nil
	}
	err = a.Live.Get(ctx, client.ObjectKey{Name: name}, new(corev1.Node))
	if apierrors.IsNotFound(err) {
		return true, 0, nil
	}
	if err == nil {
		a.others.look(name, a.Now().Add(again))
	}
	return false, again, err
}

// agents returns how many agents have registered.
func (a *Agent) agents(ctx context.Context) (int, error) {
	var cm corev1.ConfigMap
	err := a.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: ledger.Name}, &cm)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	key, err := a.Signing.Get(ctx)
	if err != nil {
		return 0, err
	}
	l, _ := ledger.Read(&cm, key) // the admission logs entries that were edited
	return len(l.Agents), nil
}

// others holds the existing nodes of other agents, with the time of the next check of each. It is safe for concurrent
// use.
type others struct {
	mu   sync.Mutex
	next map[string]time.Time
}

// wait returns the time until the next check of a node, and whether a check was planned before.
func (o *others) wait(node string, now time.Time) (wait time.Duration, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next, known := o.next[node]
	return max(0, next.Sub(now)), known
}

// look schedules the next check of a node.
func (o *others) look(node string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == nil {
		o.next = map[string]time.Time{}
	}
	o.next[node] = at
}
