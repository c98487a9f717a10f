package node

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// strangerFor is how long, from its creation, a load of a restore counts as waiting if only another agent can prepare
// it. That agent may no longer exist, and backups must not wait for it.
const strangerFor = time.Hour

// waitingRestores are the New loads of restores that could be prepared now.
type waitingRestores map[types.UID]bool

// restoresWaiting returns the waiting loads of restores. If the load does not name the node of the restored pod, only
// the agent of that node finds the pod. Other agents count the load once that agent has written the reason why it
// waits.
func (q *admission) restoresWaiting(ctx context.Context, v *view) waitingRestores {
	waiting := waitingRestores{}
	for _, l := range v.fresh {
		if !l.restore || l.cancelled() || v.permits(l) {
			continue
		}
		if _, is := q.unfit(l); is {
			continue
		}
		noted := l.status.Message != "" && v.now.Sub(l.GetCreationTimestamp().Time) < strangerFor
		if noted || q.turn(ctx, v, l) != "" {
			waiting[l.GetUID()] = true
		}
	}
	return waiting
}

// beside returns the number of waiting restores other than a load.
func (w waitingRestores) beside(l *load) int {
	if w[l.GetUID()] {
		return len(w) - 1
	}
	return len(w)
}

// key returns a string that is the same for the same counts and the same number of waiting restores. It is never
// empty.
func (v *view) key(restores int) string { return fmt.Sprint(restores, v.counts.key()) }
