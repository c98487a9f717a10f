package v1

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/cleat-dev/cleat/framework/internal/wire"
)

// Validate returns an error if the decision on input breaks a rule, and the server therefore does not accept it.
func (o *DecideOutput) Validate(input *DecideInput) error {
	for _, rule := range []func(*DecideInput) error{
		o.ValidateLimit, o.ValidateComplete, o.ValidateWaits, o.ValidateBlockers, o.ValidateRecheck,
	} {
		if err := rule(input); err != nil {
			return err
		}
	}
	return nil
}

// ValidateLimit checks that no more backups are admitted than the limit leaves free.
func (o *DecideOutput) ValidateLimit(input *DecideInput) error {
	if free := input.Free(); len(o.Admit) > free {
		return fmt.Errorf("admits %d backups, and %d of %d slots are free", len(o.Admit), free, input.Limit)
	}
	return nil
}

// ValidateComplete checks that each queued backup is either admitted or has a position in the new order, once.
func (o *DecideOutput) ValidateComplete(input *DecideInput) error {
	left := make(map[string]bool, len(input.Queued)) // queued backups without a decision
	for i := range input.Queued {
		left[input.Queued[i].Name] = true
	}
	for _, name := range o.Admit {
		if !left[name] {
			return fmt.Errorf("admits %q, which is not queued or was admitted already", name)
		}
		delete(left, name)
	}
	if len(o.Order) == 0 {
		return nil
	}
	for _, name := range o.Order {
		if !left[name] {
			return fmt.Errorf("orders %q, which does not wait in the queue or has its position already", name)
		}
		delete(left, name)
	}
	for name := range left {
		return fmt.Errorf("leaves %d backups out of the order, %q among them", len(left), name)
	}
	return nil
}

var reasonWord = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// ValidateWaits checks that each backup that waits has one reason, a word and a line.
func (o *DecideOutput) ValidateWaits(input *DecideInput) error {
	admitted := make(map[string]bool, len(o.Admit))
	for _, name := range o.Admit {
		admitted[name] = true
	}
	given := make(map[string]bool, len(input.Queued)) // backups that wait, with whether they have a reason
	for i := range input.Queued {
		if name := input.Queued[i].Name; !admitted[name] {
			given[name] = false
		}
	}
	for _, wait := range o.Waits {
		switch has, waits := given[wait.Name]; {
		case !waits:
			return fmt.Errorf("gives a reason for %q, which does not wait", wait.Name)
		case has:
			return fmt.Errorf("says twice why %q waits", wait.Name)
		case !reasonWord.MatchString(wait.Reason):
			return fmt.Errorf("why %q waits: reason %q must be one word in UpperCamelCase of at most 64 letters and digits",
				wait.Name, wire.Clip(wait.Reason))
		}
		if err := wire.Line("message", wait.Message); err != nil {
			return fmt.Errorf("why %q waits: %w", wait.Name, err)
		}
		given[wait.Name] = true
	}
	for i := range input.Queued {
		if has, waits := given[input.Queued[i].Name]; waits && !has {
			return fmt.Errorf("does not say why %q waits", input.Queued[i].Name)
		}
	}
	return nil
}

// ValidateBlockers checks that blockers are other backups or restores of the input, and that the namespaces in common
// are the backup's own.
func (o *DecideOutput) ValidateBlockers(input *DecideInput) error {
	known := make(map[string]*Backup, len(input.Queued))
	for _, backups := range [][]Backup{input.Operating, input.Restoring, input.Running, input.Ready, input.Queued} {
		for i := range backups {
			known[backups[i].Name] = &backups[i]
		}
	}
	for _, wait := range o.Waits {
		for _, blocker := range wait.Blockers {
			if known[blocker] == nil || blocker == wait.Name {
				return fmt.Errorf("why %q waits: blocker %q is not another backup of the snapshot", wait.Name, blocker)
			}
		}
		self := known[wait.Name]
		if self == nil {
			continue // ValidateWaits refuses it
		}
		for _, namespace := range wait.Namespaces {
			_, own := slices.BinarySearch(self.Namespaces, namespace)
			if !own && (!self.AllNamespaces || namespace == "") {
				return fmt.Errorf("why %q waits: namespace %q is none of the backup's", wait.Name, namespace)
			}
		}
	}
	return nil
}

// shortestRecheck is the shortest time after which a policy can have the server call again.
const shortestRecheck = time.Second

// ValidateRecheck checks that the next call does not come too soon.
func (o *DecideOutput) ValidateRecheck(*DecideInput) error {
	if o.RecheckAfter != 0 && o.RecheckAfter < shortestRecheck {
		return fmt.Errorf("recheck_after is %s, want at least %s, or none", o.RecheckAfter, shortestRecheck)
	}
	return nil
}
