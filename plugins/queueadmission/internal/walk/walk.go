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
	ReasonWide    = "ClusterOverlap"   // it has no namespace but cluster-scoped objects in common with a backup ahead of it
)

// The states of the backups ahead, as clauses of messages. They do not distinguish a backup that is ready from one that
// runs: the difference does not matter to those that wait and should not change their messages.
const (
	runs  = "runs"
	waits = "is ahead of it in the queue"
)

// Decide visits all queued backups in the given order. It admits each for which there is a free slot and that overlaps
// no backup that runs, is ready, or precedes it in order, whether that one waits or is admitted now. So no backup is
// overtaken by one that would then block it, and a wide backup does not starve.
//
// Two backups overlap when they have a namespace in common and rule agrees, or when rule reports that they share
// cluster-scoped objects. The time is linear in the number of namespaces of all backups, times the number of different
// keys that rule returns in one namespace.
func Decide(snapshot *qav1.DecideInput, order []*qav1.Backup, rule Rule) *qav1.DecideOutput {
	ahead := newHeld(rule)
	for i := range snapshot.Running {
		ahead.add(&snapshot.Running[i], runs)
	}
	for i := range snapshot.Ready {
		ahead.add(&snapshot.Ready[i], runs)
	}
	decision := &qav1.DecideOutput{}
	for _, backup := range order {
		overlap := ahead.overlap(backup)
		switch {
		case overlap != nil:
			decision.Waits = append(decision.Waits, overlap.wait(backup))
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
	message := fmt.Sprintf("all %d places are taken, and it starts when one gets free", limit)
	if limit == 1 {
		message = "one backup runs at a time, and it starts when the place gets free"
	}
	return qav1.Wait{Name: backup.Name, Reason: ReasonLimit, Message: message}
}

const (
	maxBlockers   = 8 // the number that is named; there may be thousands
	maxNamespaces = 8
)

// overlap is what a backup has in common with the backups ahead of it.
type overlap struct {
	blockers   []*holder // in the order of the walk
	namespaces []string
}

// wait returns the entry of the waiting backup. The message describes the first blocker; the others are only named.
func (o *overlap) wait(backup *qav1.Backup) qav1.Wait {
	first := o.blockers[0]
	wait := qav1.Wait{Name: backup.Name, Reason: ReasonOverlap, Namespaces: o.namespaces}
	for _, blocker := range o.blockers {
		wait.Blockers = append(wait.Blockers, blocker.backup.Name)
	}
	switch {
	case backup.AllNamespaces:
		wait.Message = fmt.Sprintf("takes all namespaces, and %s %s", first.backup.Name, first.state)
	case first.backup.AllNamespaces:
		wait.Message = fmt.Sprintf("%s, which %s, takes all namespaces", first.backup.Name, first.state)
	default:
		both := common(backup, first.backup)
		if len(both) == 0 {
			wait.Reason = ReasonWide
			wait.Message = fmt.Sprintf("may share objects that belong to no namespace with %s, which %s", first.backup.Name, first.state)
			break
		}
		wait.Message = fmt.Sprintf("shares %s with %s, which %s", namespaces(both), first.backup.Name, first.state)
	}
	switch others := len(o.blockers) - 1; {
	case others+1 >= maxBlockers:
		wait.Message += fmt.Sprintf("; %d or more others are in its way too", others)
	case others > 0:
		wait.Message += "; in its way too: " + strings.Join(wait.Blockers[1:], ", ")
	}
	return wait
}

// common returns the first few namespaces that both backups name.
func common(a, b *qav1.Backup) []string {
	both := slices.DeleteFunc(slices.Clone(a.Namespaces), func(name string) bool {
		_, takes := slices.BinarySearch(b.Namespaces, name)
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
