package modifiers

import (
	"errors"
	"fmt"
	"sync/atomic"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// Rules is a list of valid rules. It is safe for concurrent use; nil is an empty list.
type Rules struct {
	list []rule
}

type rule struct {
	name       string // the rule's path in the document, e.g. "resourceModifierRules[0]"
	conditions conditions
	change     change
	met        *atomic.Bool // an object has met the conditions
}

// Unmatched returns a text for each rule whose conditions no item has met so far.
func (r *Rules) Unmatched() []string {
	if r == nil {
		return nil
	}
	var texts []string
	for i := range r.list {
		if one := &r.list[i]; !one.met.Load() {
			texts = append(texts, fmt.Sprintf("%s applies to no object that is restored: none meets its conditions "+
				"(groupResource %q, with the plural name and the group, "+
				"as in configmaps or deployments.apps; namespaces are those of the backup)", one.name, one.conditions.resource))
		}
	}
	return texts
}

// Apply applies the rules that select the item. It calls object for the item's JSON only if there is such a rule.
// changed is nil if no rule changed the item; otherwise it is an object with apiVersion, kind and name. Each error
// belongs to one rule, which has changed nothing.
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
	if !r.met.Load() {
		r.met.Store(true)
	}
	next, err := r.change(current)
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return nil, nil
	}
	if err == nil {
		err = checkSize(next)
	}
	if err != nil {
		return nil, err
	}
	if err := checkResult(current, next); err != nil {
		return nil, err
	}
	return next, nil
}

// checkResult returns an error if the result of a rule is not an object, or is in another namespace. Another type or
// name is what the rule asks for; the namespace is that of the restore, whatever the object says.
func checkResult(before, after []byte) error {
	meta, err := item.ParseMeta(after)
	switch {
	case err != nil:
		return fmt.Errorf("the result is not an object: %w", err)
	case meta.APIVersion == "" || meta.Kind == "" || meta.Name == "" && meta.GenerateName == "":
		return errors.New("the result has no apiVersion, kind or metadata.name")
	}
	was, err := item.ParseMeta(before)
	if err == nil && was.Namespace != meta.Namespace {
		return fmt.Errorf("it changes metadata.namespace from %q to %q, and a modifier cannot move an object; use "+
			"spec.namespaceMapping of the restore (--namespace-mappings)", was.Namespace, meta.Namespace)
	}
	return err
}
