package walk

import (
	"fmt"
	"slices"
	"strings"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// Reasons for which a backup waits.
const (
	ReasonLimit   = "Limit"            // as many backups run or are ready as the limit allows
	ReasonOverlap = "NamespaceOverlap" // it has a namespace in common with a backup ahead of it
	// it has no namespace but cluster-scoped objects in common with a backup ahead of it
	ReasonWide = "ClusterOverlap"
)

// The states of the backups ahead, as clauses of messages. They do not distinguish a backup that is ready from one that
// runs: the difference does not matter to waiting backups and should not change their messages.
const (
	operates = "waits for operations of plugins that work on it"
	runs     = "runs"
	restores = "restores objects"
	waits    = "is ahead of it in the queue"
)

// Decide visits all queued backups in the given order. It admits each for which there is a free slot and that overlaps
// no backup that runs, is ready, has open operations, or precedes it in order, whether the other one waits or is
// admitted now. So no backup is overtaken by one that would then block it, and a wide backup does not starve.
//
// Two backups overlap when they have a namespace in common and rule agrees, or when rule reports that they share
// cluster-scoped objects. The time is linear in the number of namespaces of all backups, times the number of different
// keys that rule returns in one namespace.
func Decide(snapshot *qav1.DecideInput, order []*qav1.Backup, rule Rule) *qav1.DecideOutput {
	ahead := newHeld(rule)
	for i := range snapshot.Operating {
		ahead.add(&snapshot.Operating[i], operates)
	}
	if rule.Restores {
		for i := range snapshot.Restoring {
			ahead.add(&snapshot.Restoring[i], restores)
		}
	}
	for i := range snapshot.Running {
		ahead.add(&snapshot.Running[i], runs)
	}
	for i := range snapshot.Ready {
		ahead.add(&snapshot.Ready[i], runs)
	}
	decision := &qav1.DecideOutput{}
	for _, backup := range order {
		blocker := ahead.nearest(backup)
		switch {
		case blocker != nil:
			decision.Waits = append(decision.Waits, blocker.blocks(backup))
		case len(decision.Admit) >= snapshot.Free():
			decision.Waits = append(decision.Waits, full(backup, snapshot.Limit))
		default:
			decision.Admit = append(decision.Admit, backup.Name)
			ahead.add(backup, runs)
			continue
		}
		decision.Order = append(decision.Order, backup.Name)
		ahead.add(backup, waits)
	}
	return decision
}

// Queue returns the queued backups of a snapshot in the order of the queue.
func Queue(snapshot *qav1.DecideInput) []*qav1.Backup {
	order := make([]*qav1.Backup, len(snapshot.Queued))
	for i := range snapshot.Queued {
		order[i] = &snapshot.Queued[i]
	}
	return order
}

// full returns why a backup waits that only the limit blocks. It names no blockers: the end of any backup frees a slot.
func full(backup *qav1.Backup, limit int) qav1.Wait {
	message := fmt.Sprintf("the limit of %d running backups is reached", limit)
	if limit == 1 {
		message = "the limit of 1 running backup is reached"
	}
	return qav1.Wait{Name: backup.Name, Reason: ReasonLimit, Message: message}
}

// maxNamespaces is the number of common namespaces that are named; there may be thousands.
const maxNamespaces = 8

// blocks returns the reason why backup waits for h, the nearest backup that it overlaps. It names no other backup:
// these change whenever a backup ahead starts or ends, and each change is a write to every backup behind.
func (h *holder) blocks(backup *qav1.Backup) qav1.Wait {
	wait := qav1.Wait{Name: backup.Name, Reason: ReasonOverlap, Blockers: []string{h.backup.Name},
		Namespaces: common(backup, h)}
	switch {
	case backup.AllNamespaces:
		wait.Message = fmt.Sprintf("takes all namespaces, and %s %s", h.backup.Name, h.state)
	case h.backup.AllNamespaces:
		wait.Message = fmt.Sprintf("%s, which %s, takes all namespaces", h.backup.Name, h.state)
	case len(wait.Namespaces) == 0:
		wait.Reason = ReasonWide
		wait.Message = fmt.Sprintf("may share objects that belong to no namespace with %s, which %s", h.backup.Name, h.state)
	default:
		wait.Message = fmt.Sprintf("shares %s with %s, which %s", namespaces(wait.Namespaces), h.backup.Name, h.state)
	}
	return wait
}

// common returns the first few namespaces of a backup that h takes, too. It returns none if backup takes all.
func common(backup *qav1.Backup, h *holder) []string {
	if backup.AllNamespaces {
		return nil
	}
	both := slices.DeleteFunc(slices.Clone(backup.Namespaces), func(name string) bool {
		if h.backup.AllNamespaces {
			return h.excludes(name)
		}
		_, takes := slices.BinarySearch(h.backup.Namespaces, name)
		return !takes
	})
	return both[:min(len(both), maxNamespaces)]
}

func namespaces(names []string) string {
	if len(names) == 1 {
		return "namespace " + names[0]
	}
	return "namespaces " + strings.Join(names, ", ")
}
