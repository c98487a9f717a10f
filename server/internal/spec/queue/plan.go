package queue

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// Plan holds the writes that carry out a decision: first the admitted backups, then the positions of the others.
type Plan struct {
	// Admit are the backups that become ready, in this order.
	Admit []*velerov1.Backup
	// Place are the positions and reasons that have to be written, from the front.
	Place []Placement
	// Reasons has the number of waiting backups for each reason.
	Reasons map[string]int
}

// Placement is the position of a waiting backup, with the reason.
type Placement struct {
	Backup   *velerov1.Backup
	Position int // from 1
	Wait     velerov1.QueueWait
	// Announce reports whether an event is due: the Backup did not wait before, or another policy or none has decided.
	Announce bool
}

// Enters reports whether the backup enters the queue.
func (p *Placement) Enters() bool { return velerov1.PhaseOf(p.Backup) != velerov1.BackupPhaseQueued }

// ByServer stands for the policy in the QueueWait of backups that the server sets aside.
const ByServer = "cleat.dev/server"

// NewPlan returns the plan for a decision about line.Considered by the policy called by. The decision obeys the rules
// of the hub. Positions are as exact as exact requires.
func NewPlan(line Line, decision *queueadmission.Decision, by string, exact Exact, now time.Time) Plan {
	byName := make(map[string]*velerov1.Backup, len(line.Queued))
	for _, b := range line.Queued {
		byName[b.Name] = b
	}
	plan := Plan{Reasons: map[string]int{}}
	admitted := make(map[string]bool, len(decision.Admit))
	for _, name := range decision.Admit {
		plan.Admit = append(plan.Admit, byName[name])
		admitted[name] = true
	}
	// The waiting backups take the positions of the backups that the policy got, in its order.
	all := make([]waiting, 0, len(line.Queued))
	next := 0
	for _, b := range line.Queued {
		switch reason, aside := line.Aside[b.Name]; {
		case aside:
			all = append(all, reason.waiting(b))
		case !admitted[b.Name]:
			all = append(all, waiting{byName[decision.Waiting[next].Name], decision.Waiting[next], by})
			next++
		}
	}
	plan.place(all, exact, now)
	return plan
}

// Hold returns the plan without a decision: all backups are queued in their current order, with the reason why there is
// no decision.
func Hold(line Line, reason, message string, exact Exact, now time.Time) Plan {
	plan := Plan{Reasons: map[string]int{}}
	all := make([]waiting, 0, len(line.Queued))
	for _, b := range line.Queued {
		if own, aside := line.Aside[b.Name]; aside {
			all = append(all, own.waiting(b))
		} else {
			all = append(all, waiting{b, queueadmission.Waiting{Name: b.Name, Reason: reason, Message: message}, ""})
		}
	}
	plan.place(all, exact, now)
	return plan
}

// waiting is a backup that waits, with the reason and the plugin that gives it.
type waiting struct {
	backup *velerov1.Backup
	queueadmission.Waiting
	by string
}

func (r Reason) waiting(b *velerov1.Backup) waiting {
	return waiting{b, queueadmission.Waiting{Name: b.Name, Reason: r.Reason, Message: r.Message}, ByServer}
}

// place adds the placements of the waiting backups, in their order, that have to be written.
func (p *Plan) place(all []waiting, exact Exact, now time.Time) {
	positions := exact.positions(all)
	front := exact.front(len(all))
	for i := range all {
		p.Reasons[all[i].Reason]++
		if placement, changed := all[i].place(positions[i], i < front, now); changed {
			p.Place = append(p.Place, placement)
		}
	}
}

// place returns the placement of a backup, and whether it has to be written. Behind the front, a new text for the same
// reason with the same blockers waits until there is more to write.
func (w *waiting) place(position int, front bool, now time.Time) (Placement, bool) {
	p := Placement{Backup: w.backup, Position: position, Wait: velerov1.QueueWait{
		Reason: w.Reason, Message: w.Message,
		Blockers: w.Blockers, Namespaces: w.Namespaces, Policy: w.by, Since: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}}
	current, err := velerov1.QueueWaitOf(w.backup)
	same := err == nil && current != nil && current.Reason == p.Wait.Reason
	if same {
		p.Wait.Since = current.Since
	}
	p.Announce = err != nil || current == nil || current.Policy != w.by
	switch {
	case p.Announce, !same, p.Enters(), w.backup.Status.QueuePosition != position,
		!slices.Equal(current.Blockers, p.Wait.Blockers):
		return p, true
	default:
		return p, front && (current.Message != p.Wait.Message || !slices.Equal(current.Namespaces, p.Wait.Namespaces))
	}
}

// Apply writes the placement to the status and the annotations of b.
func (p Placement) Apply(b *velerov1.Backup) error {
	text, err := json.Marshal(p.Wait)
	if err != nil {
		return fmt.Errorf("encode the reason why backup %s waits: %w", b.Name, err)
	}
	b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseQueued, p.Position
	b.Annotations = maps.Clone(b.Annotations)
	if b.Annotations == nil {
		b.Annotations = map[string]string{}
	}
	b.Annotations[velerov1.QueueWaitAnnotation] = string(text)
	return nil
}

// Return sets the status of b from ReadyToStart back to Queued, at the front. The next decision writes its place and
// the reason.
func Return(b *velerov1.Backup) {
	b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseQueued, 1
}

// Admit sets the status of b to ReadyToStart.
func Admit(b *velerov1.Backup) {
	b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseReadyToStart, 0
	b.Annotations = maps.Clone(b.Annotations)
	delete(b.Annotations, velerov1.QueueWaitAnnotation)
}
