package backup

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// alwaysExcluded returns the resources that are backed up only if an action requests them: they belong to the snapshot
// of a volume.
func alwaysExcluded() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: snapshotsGroup, Resource: "volumesnapshots"},
		{Group: snapshotsGroup, Resource: "volumesnapshotcontents"},
	}
}

// isAlwaysExcluded reports whether a name belongs to such a resource, which need not exist in the cluster.
func isAlwaysExcluded(name string) bool {
	return slices.Contains(alwaysExcluded(), schema.ParseGroupResource(name))
}

// selection is the result of resolving a spec in this cluster.
type selection struct {
	snapshot   *discovery.Snapshot
	namespaces filter.Namespaces
	resources  filter.Resources
	selectors  *filter.Selectors
	rules      filter.Rules // of the resource policy; where they decide, the selectors do not apply
}

// queries returns the selectors for the API server, one for each list. Rules are applied to the contents of the lists.
func (s *selection) queries() []string {
	if !s.selectors.Any() || s.rules.Any() {
		return []string{""}
	}
	return s.selectors.Texts()
}

// selects reports whether a rule for an object selects it or, if there is no rule, a selector of the spec.
func (s *selection) selects(res discovery.Resource, meta item.Meta) bool {
	selected, decided := s.rules.Select(res.GroupResource(), res.Kind, meta.Namespace, meta.Name, meta.Labels)
	if decided {
		return selected
	}
	return s.selectors.Match(meta.Labels)
}

// exclusion returns why an object is not part of the backup, or "" if it is.
func (e *engine) exclusion(o object, meta item.Meta) string {
	if !o.must {
		switch {
		case meta.Labels[excludeLabel] == "true":
			return "it has the label " + excludeLabel + "=true"
		case o.resource.Namespaced && !e.sel.namespaces.Match(meta.Namespace):
			return "its namespace is not included"
		case !o.listed && !e.sel.resources.Allows(o.resource):
			return "its resource is not included"
		case e.leftOutByRules(o, meta):
			return "the resource policy does not include it"
		case e.req.Accepted != nil && !meta.Deleting() && !e.req.Accepted.has(o.resource, meta):
			return notAccepted
		}
	}
	if meta.Deleting() {
		return "it is being deleted"
	}
	return ""
}

// picks reports whether the filters of the spec select an object, whether or not an action requests it.
func (e *engine) picks(res discovery.Resource, meta item.Meta) bool {
	return e.sel.resources.Includes(res) && e.sel.namespaces.Match(meta.Namespace) && e.sel.selects(res, meta) &&
		meta.Labels[excludeLabel] != "true"
}

// leftOutByRules reports whether the rules of the resource policy exclude an object. If there are rules, the API
// server has not applied the selectors of the spec.
func (e *engine) leftOutByRules(o object, meta item.Meta) bool {
	switch {
	case !e.sel.rules.Any():
		return false
	case o.listed:
		return !o.chosen && !e.sel.selects(o.resource, meta)
	default:
		return !e.sel.rules.AllowsName(o.resource.GroupResource(), meta.Namespace, meta.Name)
	}
}
