package modifiers

import (
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/cleat-dev/cleat/server/item"
)

// Rules is a list of valid rules. It is safe for concurrent use; nil is an empty list.
type Rules struct {
	list []rule
}

type rule struct {
	name       string // the rule's path in the document, e.g. "resourceModifierRules[0]"
	conditions conditions
	change     change
}

// Apply applies the rules that select the item. It calls object for the item's JSON only if there is such a rule. changed is
// nil if no rule changed the item; otherwise it is an object with apiVersion, kind and name. Each error is that of one rule,
// which has changed nothing.
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

// apply returns the changed object, or nil if the rule does not apply.
func (r *rule) apply(original, current []byte) ([]byte, error) {
	matches, err := r.conditions.matchFields(original)
	if err != nil {
		return nil, fmt.Errorf("conditions.matches: %w", err)
	}
	if !matches {
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

// checkObject returns an error if the result of a rule is not an object.
func checkObject(raw []byte) error {
	meta, err := item.ParseMeta(raw)
	switch {
	case err != nil:
		return fmt.Errorf("the result is not an object: %w", err)
	case meta.APIVersion == "" || meta.Kind == "" || meta.Name == "" && meta.GenerateName == "":
		return errors.New("the result has no apiVersion, kind or metadata.name")
	}
	return nil
}
