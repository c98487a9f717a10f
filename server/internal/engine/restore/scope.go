package restore

import (
	"maps"
	"slices"
)

// Scope describes the objects that a restore may write: objects of the resources, in the namespaces or, if Cluster is
// set, cluster-scoped. Actions may add objects of other resources.
type Scope struct {
	Namespaces []string
	Resources  []string // "pods", "deployments.apps"
	Cluster    bool
}

// scope returns the scope that the filters select in the archive, without regard to labels.
func (e *engine) scope() Scope {
	var s Scope
	namespaces := map[string]struct{}{}
	for _, gr := range e.archive.Resources() {
		allowed, last := false, ""
		for entry := range e.archive.Items(gr) {
			if allowed && entry.Namespace != "" && entry.Namespace == last {
				continue
			}
			if !e.selection.Allows(entry) {
				continue
			}
			allowed, last = true, entry.Namespace
			if entry.Namespace == "" {
				s.Cluster = true
			} else {
				namespaces[e.selection.Target(entry.Namespace)] = struct{}{}
			}
		}
		if allowed {
			s.Resources = append(s.Resources, gr.String())
		}
	}
	s.Namespaces = slices.Sorted(maps.Keys(namespaces))
	return s
}
