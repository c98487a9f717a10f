package queueadmission

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// unchecked is a decision before validation.
type unchecked struct {
	admit []string
	order []string
	waits []Waiting
}

// checkDecision checks the decision about snapshot, and returns it in the new order of the queue.
func checkDecision(snapshot *Snapshot, received unchecked) (*Decision, error) {
	queued := make(map[string]*Backup, len(snapshot.Queued)) // those without a decision yet
	for i := range snapshot.Queued {
		queued[snapshot.Queued[i].Name] = &snapshot.Queued[i]
	}
	if free := snapshot.Free(); len(received.admit) > free {
		return nil, fmt.Errorf("admits %d backups, and %d of %d slots are free", len(received.admit), free, snapshot.Limit)
	}
	for _, name := range received.admit {
		if _, ok := queued[name]; !ok {
			return nil, fmt.Errorf("admits %q, which is not queued or was admitted already", name)
		}
		delete(queued, name)
	}
	waiting, err := inOrder(snapshot, received.order, queued)
	if err != nil {
		return nil, err
	}
	decision := &Decision{Admit: received.admit, Waiting: waiting}
	if err := giveReasons(snapshot, decision.Waiting, received.waits); err != nil {
		return nil, err
	}
	return decision, nil
}

// inOrder sorts the waiting backups by order, or leaves them in the queue's order if it is empty.
func inOrder(snapshot *Snapshot, order []string, wait map[string]*Backup) ([]Waiting, error) {
	waiting := make([]Waiting, 0, len(wait))
	if len(order) == 0 {
		for i := range snapshot.Queued {
			if _, ok := wait[snapshot.Queued[i].Name]; ok {
				waiting = append(waiting, Waiting{Name: snapshot.Queued[i].Name})
			}
		}
		return waiting, nil
	}
	for _, name := range order {
		if _, ok := wait[name]; !ok {
			return nil, fmt.Errorf("orders %q, which does not wait in the queue or has its position already", name)
		}
		delete(wait, name)
		waiting = append(waiting, Waiting{Name: name})
	}
	for name := range wait {
		return nil, fmt.Errorf("leaves %d backups out of the order, %q among them", len(wait), name)
	}
	return waiting, nil
}

// giveReasons sets the reason of each waiting backup.
func giveReasons(snapshot *Snapshot, waiting []Waiting, reasons []Waiting) error {
	position := make(map[string]int, len(waiting))
	for i := range waiting {
		position[waiting[i].Name] = i
	}
	known := make(map[string]*Backup, len(snapshot.Queued))
	for _, backups := range [][]Backup{snapshot.Operating, snapshot.Restoring, snapshot.Running, snapshot.Ready,
		snapshot.Queued} {
		for i := range backups {
			known[backups[i].Name] = &backups[i]
		}
	}
	for _, reason := range reasons {
		i, ok := position[reason.Name]
		if !ok {
			return fmt.Errorf("gives a reason for %q, which does not wait", reason.Name)
		}
		if waiting[i].Reason != "" {
			return fmt.Errorf("says twice why %q waits", reason.Name)
		}
		if err := validateReason(reason, known); err != nil {
			return fmt.Errorf("why %q waits: %w", reason.Name, err)
		}
		waiting[i] = reason
	}
	for i := range waiting {
		if waiting[i].Reason == "" {
			return fmt.Errorf("does not say why %q waits", waiting[i].Name)
		}
	}
	return nil
}

var reasonWord = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// validateReason checks the reason why one backup waits; known are all backups of the snapshot.
func validateReason(wait Waiting, known map[string]*Backup) error {
	if !reasonWord.MatchString(wait.Reason) {
		return fmt.Errorf("reason %q must be one word in UpperCamelCase of at most 64 letters and digits",
			reply.Clip(wait.Reason))
	}
	if err := reply.Line("message", wait.Message); err != nil {
		return err
	}
	for _, blocker := range wait.Blockers {
		if _, ok := known[blocker]; !ok || blocker == wait.Name {
			return fmt.Errorf("blocker %q is not another backup of the snapshot", blocker)
		}
	}
	self := known[wait.Name]
	for _, namespace := range wait.Namespaces {
		_, ok := slices.BinarySearch(self.Namespaces, namespace)
		if ok = ok || self.AllNamespaces && namespace != ""; !ok {
			return fmt.Errorf("namespace %q is none of the backup's", namespace)
		}
	}
	return nil
}

// validateRecheck checks that the recheck is not too soon.
func validateRecheck(after time.Duration) error {
	if after != 0 && after < time.Second {
		return fmt.Errorf("recheck_after is %s, want at least 1s, or none", after)
	}
	return nil
}
