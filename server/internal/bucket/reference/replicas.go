package reference

import (
	"encoding/json"
	"fmt"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// replicas adds the edges to the objects that the replicas of the current object have from the template that to names.
func (w *walker) replicas(strict bool, to manifest.Ref) error {
	var object struct {
		Metadata struct{ Name string }
		Spec     struct {
			Replicas *int32
			Ordinals struct{ Start int32 }
		}
	}
	if err := json.Unmarshal(w.raw, &object); err != nil {
		return nil //nolint:nilerr // a field of a wrong type is ignored
	}
	count := int64(1)
	if object.Spec.Replicas != nil {
		count = int64(*object.Spec.Replicas)
	}
	template, first := to.Name, int64(object.Spec.Ordinals.Start)
	for ordinal := first; ordinal < first+count; ordinal++ {
		to.Name = fmt.Sprintf("%s-%s-%d", template, object.Metadata.Name, ordinal)
		if !isName(to.Name) {
			return nil
		}
		if err := w.add(strict, to); err != nil {
			return err
		}
	}
	return nil
}
