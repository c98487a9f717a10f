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

// Plan is what has to be written so that the Backups say what was decided: first who gets a place, then who waits where.
type Plan struct {
	// Admit are to become ready, in this order.
	Admit []*velerov1.Backup
	// Place are to wait as said; those of whom the Backup says so already are not among them.
	Place []Placement
	// Reasons are why backups wait, all of them, and how many wait for each.
	Reasons map[string]int
}

// Placement is where a backup waits, and why.
type Placement struct {
	Backup   *velerov1.Backup
	Position int // from 1
	Wait     velerov1.QueueWait
	// News tells that the Backup did not wait before, or that another policy decides so, or none any more.
	News bool
}

// NewPlan carries out decision, which the policy by has made about line and which keeps the rules of the hub.
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

// Hold is the plan when nothing was decided: whoever is in the line keeps the order it has, and those who are not queued
// yet are, with the reason for which nothing was decided.
func Hold(line Line, reason, message string, now time.Time) Plan {
	plan := Plan{Reasons: map[string]int{reason: len(line.Queued)}}
	for i, b := range line.Queued {
		if placement, changed := place(b, i+1, queueadmission.Waiting{Name: b.Name, Reason: reason, Message: message}, "", now); changed {
			plan.Place = append(plan.Place, placement)
		}
	}
	return plan
}

// place says where b waits, and whether it does not say so itself.
func place(b *velerov1.Backup, position int, waiting queueadmission.Waiting, by string, now time.Time) (Placement, bool) {
	p := Placement{Backup: b, Position: position, Wait: velerov1.QueueWait{
		Reason: waiting.Reason, Message: waiting.Message,
		Blockers: waiting.Blockers, Namespaces: waiting.Namespaces, Policy: by, Since: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}}
	said, err := velerov1.QueueWaitOf(b)
	same := err == nil && said != nil && said.Reason == p.Wait.Reason
	if same {
		p.Wait.Since = said.Since
	}
	p.News = err != nil || said == nil || said.Policy != by
	changed := p.News || !same || b.Status.Phase != velerov1.BackupPhaseQueued || b.Status.QueuePosition != position ||
		said.Message != p.Wait.Message || !slices.Equal(said.Blockers, p.Wait.Blockers) || !slices.Equal(said.Namespaces, p.Wait.Namespaces)
	return p, changed
}

// Apply makes b say what the placement does.
func (p Placement) Apply(b *velerov1.Backup) error {
	text, err := json.Marshal(p.Wait)
	if err != nil {
		return fmt.Errorf("encode why backup %s waits: %w", b.Name, err)
	}
	b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseQueued, p.Position
	b.Annotations = maps.Clone(b.Annotations)
	if b.Annotations == nil {
		b.Annotations = map[string]string{}
	}
	b.Annotations[velerov1.QueueWaitAnnotation] = string(text)
	return nil
}

// Admit makes b ready to start.
func Admit(b *velerov1.Backup) {
	b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseReadyToStart, 0
	b.Annotations = maps.Clone(b.Annotations)
	delete(b.Annotations, velerov1.QueueWaitAnnotation)
}
