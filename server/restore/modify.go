package restore

import (
	"fmt"

	"github.com/cleat-dev/cleat/server/modifiers"
)

// modify changes the item by the rules of the user. A rule that does not fit is an error of the item,
// which is restored without what that rule would have changed, as in Velero: an object that is missing
// does more harm.
func (r *itemRun) modify() error {
	if r.engine.modifiers == nil {
		return nil
	}
	item := modifiers.Item{GroupResource: r.entry.GroupResource, Namespace: r.entry.Namespace, Name: r.obj.Name, Labels: r.obj.Labels}
	changed, errs := r.engine.modifiers.Apply(item, func() []byte { return r.obj.encode() })
	if changed != nil {
		r.log.Info("changed by resource modifiers")
		obj, err := decodeObject(changed)
		if err != nil {
			errs = append(errs, fmt.Errorf("what the rules make: %w", err))
		} else {
			r.obj = obj
		}
	}
	for _, err := range errs {
		if err := r.fail(fmt.Errorf("error modifying %s: %w; it is restored without that change", r.id, err)); err != nil {
			return err
		}
	}
	return nil
}
