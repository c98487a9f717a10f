package backupqueue

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// slots are the Backups that certainly hold a slot: this process has given it to them, and they were writable since.
//
// The phases ReadyToStart and InProgress alone do not prove that. If such a Backup cannot be written, its slot is
// given to others, which may overlap it, and a restart loses this information. So a Backup that is not among the slots
// does not start before MayStart has compared it with the Backups in the slots.
type slots struct {
	deciding sync.Mutex // held by decisions, which give slots, and by MayStart

	mu    sync.Mutex
	given map[types.UID]bool
	lost  chan event.GenericEvent // requests a decision; nil if no controller receives it
}

func (s *slots) give(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given == nil {
		s.given = map[types.UID]bool{}
	}
	s.given[uid] = true
}

func (s *slots) lose(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.given, uid)
}

func (s *slots) has(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given[uid]
}

// keep removes all Backups except the ready and running ones of a line.
func (s *slots) keep(line queue.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	still := make(map[types.UID]bool, len(s.given))
	for _, backups := range [][]*velerov1.Backup{line.Ready, line.Running} {
		for _, b := range backups {
			still[b.UID] = true
		}
	}
	maps.DeleteFunc(s.given, func(uid types.UID, _ bool) bool { return !still[uid] })
}

// MayStart reports whether a ready backup may be started now, or a running one taken up, and counts its slot if so. If
// it is not certain that the backup holds a slot, one must be free, and MayStart asks the policy whether a backup that
// certainly holds a slot blocks it.
func (q *Controller) MayStart(ctx context.Context, b *velerov1.Backup) (bool, error) {
	if q.slots.has(b.UID) {
		return true, nil
	}
	q.slots.deciding.Lock()
	defer q.slots.deciding.Unlock()
	line, err := q.line(ctx)
	if err != nil {
		return false, err
	}
	var others []*velerov1.Backup
	for _, backups := range [][]*velerov1.Backup{line.Running, line.Ready} {
		for _, other := range backups {
			if q.slots.has(other.UID) {
				others = append(others, other)
			}
		}
	}
	switch {
	case len(others) >= max(1, q.Limit):
		return false, nil
	case len(others)+len(line.Operating)+len(line.Restoring) > 0:
		namespaces, labels, err := q.namespaces(ctx)
		if err != nil {
			return false, err
		}
		asked := queue.Line{Running: others, Operating: line.Operating, Restoring: line.Restoring,
			Queued: []*velerov1.Backup{b}}
		outcome, err := q.Admission.Decide(ctx, queue.WithLabels(new(queue.Resolver).Snapshot(asked, namespaces,
			max(1, q.Limit), q.Now()), labels))
		if err != nil {
			return false, fmt.Errorf("ask whether the backup may still start: %w", err)
		}
		if waiting := outcome.Decision.Waiting; len(waiting) > 0 && len(waiting[0].Blockers) > 0 {
			return false, nil
		}
	}
	q.slots.give(b.UID)
	q.refusals.ask(b.UID)
	return true, nil
}

// Refused records that a ready or running backup cannot be written, which frees its slot. It returns the time until
// the next attempt. The attempt requires MayStart, unless it writes only the end of the run.
func (q *Controller) Refused(b *velerov1.Backup, err error) time.Duration {
	again := q.refused(b, err)
	q.slots.lose(b.UID)
	select {
	case q.slots.lost <- event.GenericEvent{Object: b}:
	default: // a decision is already requested
	}
	return again
}
