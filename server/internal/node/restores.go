package node

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// strangerFor is how long a load of a restore that only another agent can prepare counts as one that waits, from its
// creation. That agent may be gone, and backups must not wait for it.
const strangerFor = time.Hour

// waitingRestores are the New loads of restores that could be prepared at once.
type waitingRestores map[types.UID]bool

// restoresWaiting returns the loads of restores that wait. A restored pod without a node in the load is known to its own
// agent only; other agents count the load when that agent has noted why the load waits.
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

// beside returns how many wait beside a load.
func (w waitingRestores) beside(l *load) int {
	if w[l.GetUID()] {
		return len(w) - 1
	}
	return len(w)
}

// key is the same for the same counts and the same number of restores that wait. It is never empty.
func (v *view) key(restores int) string { return fmt.Sprint(restores, v.counts.key()) }
