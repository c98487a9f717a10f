package manifest

import (
	"maps"
	"slices"
)

// OmittedByDefault returns the annotations that a manifest does not have unless it is configured to: those with a copy
// of the whole object, be it a Secret.
func OmittedByDefault() []string { return []string{"kubectl.kubernetes.io/last-applied-configuration"} }

// Omit removes the annotations that the header names from the item. It does not change the item's map, which others may
// use.
func (h Header) Omit(item *Item) {
	omitted := func(key, _ string) bool { return slices.Contains(h.OmittedAnnotations, key) }
	for key, value := range item.Annotations {
		if omitted(key, value) {
			item.Annotations = maps.Clone(item.Annotations)
			maps.DeleteFunc(item.Annotations, omitted)
			return
		}
	}
}
