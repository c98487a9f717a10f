package restore

import (
	"fmt"

	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/spec/modifiers"
)

// modify applies the user's resource modifiers. A rule that cannot be applied is an error of the item, which is
// restored without that change, as in Velero: a missing object would do more harm.
func (r *itemRun) modify() error {
	if r.engine.modifiers == nil {
		return nil
	}
	item := modifiers.Item{GroupResource: r.entry.GroupResource, Namespace: r.entry.Namespace, Name: r.obj.Name,
		Labels: r.obj.Labels}
	changed, errs := r.engine.modifiers.Apply(item, func() []byte { return r.obj.Encode() })
	if changed != nil {
		r.log.Info("changed by resource modifiers")
		obj, err := object.Decode(changed)
		if err != nil {
			errs = append(errs, fmt.Errorf("result of the rules: %w", err))
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
