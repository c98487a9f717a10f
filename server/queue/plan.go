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
	// Place are the positions that differ from what the Backups say.
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

// NewPlan returns the plan for a decision about line by the policy called by. The decision obeys the rules of the hub.
func NewPlan(line Line, decision *queueadmission.Decision, by string, now time.Time) Plan {
	byName := make(map[string]*velerov1.Backup, len(line.Queued))
	for _, b := range line.Queued {
		byName[b.Name] = b
	}
	plan := Plan{Reasons: map[string]int{}}
	for _, name := range decision.Admit {
		plan.Admit = append(plan.Admit, byName[name])
	}
	for i, waiting := range decision.Waiting {
		plan.Reasons[waiting.Reason]++
		if placement, changed := place(byName[waiting.Name], i+1, waiting, by, now); changed {
			plan.Place = append(plan.Place, placement)
		}
	}
	return plan
}

// Hold returns the plan without a decision: all backups are queued in their current order, with the reason why there is no
// decision.
func Hold(line Line, reason, message string, now time.Time) Plan {
	plan := Plan{Reasons: map[string]int{reason: len(line.Queued)}}
	for i, b := range line.Queued {
		if placement, changed := place(b, i+1, queueadmission.Waiting{Name: b.Name, Reason: reason, Message: message}, "", now); changed {
			plan.Place = append(plan.Place, placement)
		}
	}
	return plan
}

// place returns the placement of b, and whether b has to be written.
func place(b *velerov1.Backup, position int, waiting queueadmission.Waiting, by string, now time.Time) (Placement, bool) {
	p := Placement{Backup: b, Position: position, Wait: velerov1.QueueWait{
		Reason: waiting.Reason, Message: waiting.Message,
		Blockers: waiting.Blockers, Namespaces: waiting.Namespaces, Policy: by, Since: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}}
	current, err := velerov1.QueueWaitOf(b)
	same := err == nil && current != nil && current.Reason == p.Wait.Reason
	if same {
		p.Wait.Since = current.Since
	}
	p.Announce = err != nil || current == nil || current.Policy != by
	changed := p.Announce || !same || b.Status.Phase != velerov1.BackupPhaseQueued || b.Status.QueuePosition != position ||
		current.Message != p.Wait.Message || !slices.Equal(current.Blockers, p.Wait.Blockers) || !slices.Equal(current.Namespaces, p.Wait.Namespaces)
	return p, changed
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

// Admit sets the status of b to ReadyToStart.
func Admit(b *velerov1.Backup) {
	b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseReadyToStart, 0
	b.Annotations = maps.Clone(b.Annotations)
	delete(b.Annotations, velerov1.QueueWaitAnnotation)
}
