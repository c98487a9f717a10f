package modifiers

import (
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/cleat-dev/cleat/server/item"
)

// Rules are checked rules in their order. They are safe for concurrent use; nil is no rules.
type Rules struct {
	list []rule
}

type rule struct {
	name       string // where it stands, e.g. "resourceModifierRules[0]"
	conditions conditions
	change     change
}

// Apply lets the rules that are for the item change it. object is asked for the item as JSON only if
// there is such a rule. changed is nil if no rule changed the item; it is an object with
// apiVersion, kind and name otherwise. Each error is of one rule, which changed nothing.
func (r *Rules) Apply(of Item, object func() []byte) (changed []byte, errs []error) {
	if r == nil {
		return nil, nil
	}
	var original []byte
	for i := range r.list {
		one := &r.list[i]
		if !one.conditions.selects(of) {
			continue
		}
		if original == nil {
			original = object()
		}
		current := changed
		if current == nil {
			current = original
		}
		next, err := one.apply(original, current)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", one.name, err))
			continue
		}
		if next != nil {
			changed = next
		}
	}
	return changed, errs
}

// apply is the object after the rule, or nil if its conditions do not hold.
func (r *rule) apply(original, current []byte) ([]byte, error) {
	holds, err := r.conditions.hold(original)
	if err != nil {
		return nil, fmt.Errorf("conditions.matches: %w", err)
	}
	if !holds {
		return nil, nil
	}
	next, err := r.change(current)
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return next, checkObject(next)
}

// checkObject says what an object lacks to be one.
func checkObject(raw []byte) error {
	meta, err := item.ParseMeta(raw)
	switch {
	case err != nil:
		return fmt.Errorf("what it makes is no object: %w", err)
	case meta.APIVersion == "" || meta.Kind == "" || meta.Name == "" && meta.GenerateName == "":
		return errors.New("what it makes has no apiVersion, kind or metadata.name any more")
	}
	return nil
}
