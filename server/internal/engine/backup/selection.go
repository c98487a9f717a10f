package backup

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// alwaysExcluded returns the resources that are backed up only at the request of an action: they belong to the
// snapshot of a volume.
func alwaysExcluded() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: snapshotsGroup, Resource: "volumesnapshots"},
		{Group: snapshotsGroup, Resource: "volumesnapshotcontents"},
	}
}

// isAlwaysExcluded reports whether a name is that of such a resource, which need not exist in the cluster.
func isAlwaysExcluded(name string) bool {
	return slices.Contains(alwaysExcluded(), schema.ParseGroupResource(name))
}

// selection is what a spec selects in this cluster.
type selection struct {
	snapshot   *discovery.Snapshot
	namespaces filter.Namespaces
	resources  filter.Resources
	selectors  *filter.Selectors
	rules      filter.Rules // of the resource policy; they replace the selectors where they decide
}

// queries returns the selectors as they are sent to the API server, one for each list. Rules are applied to what the
// lists hold.
func (s *selection) queries() []string {
	if !s.selectors.Any() || s.rules.Any() {
		return []string{""}
	}
	return s.selectors.Texts()
}

// selects reports whether a rule for an object selects it or, where there is no rule, a selector of the spec.
func (s *selection) selects(res discovery.Resource, meta item.Meta) bool {
	selected, decided := s.rules.Select(res.GroupResource(), res.Kind, meta.Namespace, meta.Name, meta.Labels)
	if decided {
		return selected
	}
	return s.selectors.Match(meta.Labels)
}
