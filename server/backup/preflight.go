package backup

import (
	"maps"
	"slices"
)

// preflight records what the spec requests and cannot have.
func (e *engine) preflight() {
	for _, name := range slices.Sorted(maps.Keys(e.req.Backup.Spec.OrderedResources)) {
		if _, ok := e.sel.snapshot.Resolve(name); !ok {
			e.warn("spec.orderedResources: " + name + " is not a resource of this cluster; write a plural name such as pods or deployments.apps")
		}
	}
}

// gap records a warning about something that the spec requests and the server does not support.
func (e *engine) gap(warning string) {
	e.record.gap(warning)
	e.warn(warning)
}
