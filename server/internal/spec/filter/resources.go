package filter

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// ResourceLists are the resource filters of a spec. They form two families that cannot be combined: the first three
// fields, for resources of both scopes, and the four scoped lists. If none is set, everything is included.
type ResourceLists struct {
	Included, Excluded    []string
	IncludeCluster        *bool // nil means that it depends on the namespaces, see Resources.Includes
	IncludedClusterScoped []string
	ExcludedClusterScoped []string
	IncludedNamespaced    []string
	ExcludedNamespaced    []string
	Policy                ScopedLists            // has lower priority than the scoped lists; not with the other family
	AlwaysExcluded        []schema.GroupResource // excluded, but does not count as a filter
}

// scoped reports whether the scoped family is used. It is also used if no list is set.
func (l ResourceLists) scoped() bool {
	return len(l.Included) == 0 && len(l.Excluded) == 0 && l.IncludeCluster == nil
}

// Resources selects the types of objects that are backed up or restored.
type Resources struct {
	always     []schema.GroupResource
	everything bool // everything else is included, so cluster-scoped resources are too unless excluded
	scoped     bool

	both           Names // of the family for both scopes
	includeCluster *bool

	namespaced Names // of the scoped family
	cluster    Names
}

// NewResources resolves the lists. unresolved has an entry "field: name" for each name that is not a resource of the
// cluster, or a resource of the wrong scope; such names match nothing. Globs are matched against "resource.group".
// NewResources returns an error if a glob cannot be parsed or lists of both families are set.
func NewResources(
	lists ResourceLists, namespaces Namespaces, snapshot *discovery.Snapshot,
) (r Resources, unresolved []string, err error) {
	r = Resources{always: lists.AlwaysExcluded, scoped: lists.scoped(), includeCluster: lists.IncludeCluster}
	resolve := func(field string, names []string, scope func(discovery.Resource) bool) []string {
		resolved, unknown := resolveScoped(names, snapshot, scope)
		for _, name := range slices.DeleteFunc(unknown, r.isAlways) { // these need not exist in the cluster
			unresolved = append(unresolved, field+": "+name)
		}
		return resolved
	}
	// A list that excludes only resources that are always excluded must not count as a filter. The server writes such
	// lists itself.
	others := func(names []string) []string {
		return slices.DeleteFunc(names, r.isAlways)
	}
	either := func(discovery.Resource) bool { return true }
	namespaced := func(res discovery.Resource) bool { return res.Namespaced }
	cluster := func(res discovery.Resource) bool { return !res.Namespaced }

	if !r.scoped {
		if len(lists.IncludedClusterScoped)+len(lists.ExcludedClusterScoped)+len(lists.IncludedNamespaced)+
			len(lists.ExcludedNamespaced) > 0 || !lists.Policy.empty() {
			return Resources{}, nil, fmt.Errorf("includedResources, excludedResources and includeClusterResources " +
				"cannot be used together with the lists for cluster-scoped and namespace-scoped resources; use one family")
		}
		r.both, err = NewNames(resolve("includedResources", lists.Included, either),
			others(withoutStar(resolve("excludedResources", lists.Excluded, either))))
		if err != nil {
			return Resources{}, nil, err
		}
		r.everything = namespaces.Everything()
		return r, unresolved, nil
	}
	r.namespaced, err = NewNames(resolve("includedNamespaceScopedResources", lists.IncludedNamespaced, namespaced),
		others(resolve("excludedNamespaceScopedResources", lists.ExcludedNamespaced, namespaced)))
	if err != nil {
		return Resources{}, nil, err
	}
	r.cluster, err = NewNames(resolve("includedClusterScopedResources", lists.IncludedClusterScoped, cluster),
		others(resolve("excludedClusterScopedResources", lists.ExcludedClusterScoped, cluster)))
	if err != nil {
		return Resources{}, nil, err
	}
	const policy = "resourcePolicy.includeExcludePolicy."
	r.namespaced, err = under(r.namespaced,
		resolve(policy+"includedNamespaceScopedResources", lists.Policy.IncludedNamespaced, namespaced),
		others(resolve(policy+"excludedNamespaceScopedResources", lists.Policy.ExcludedNamespaced, namespaced)))
	if err != nil {
		return Resources{}, nil, err
	}
	r.cluster, err = under(r.cluster,
		resolve(policy+"includedClusterScopedResources", lists.Policy.IncludedClusterScoped, cluster),
		others(resolve(policy+"excludedClusterScopedResources", lists.Policy.ExcludedClusterScoped, cluster)))
	if err != nil {
		return Resources{}, nil, err
	}
	r.everything = namespaces.Everything() && r.namespaced.Everything() && len(r.cluster.Includes()) == 0
	return r, unresolved, nil
}

// Includes reports whether the objects of a resource are included by themselves.
//
// In the family for both scopes, a cluster-scoped resource is included if the lists include it, unless
// includeClusterResources is false, or it is absent and not all namespaces are included. In the scoped family, a
// cluster-scoped resource is included if it is listed, or if none is listed and all namespaces and all namespaced
// resources are included; excludes take precedence. Namespace objects are included unless they are excluded.
func (r Resources) Includes(res discovery.Resource) bool {
	gr := res.GroupResource()
	name := gr.String()
	switch {
	case r.isAlways(name):
		return false
	case r.scoped && res.Namespaced:
		return r.namespaced.Match(name)
	case r.scoped:
		return !r.cluster.Excluded(name) && (r.everything || r.cluster.Included(name) || isNamespaces(gr))
	case res.Namespaced:
		return r.both.Match(name)
	case r.includeCluster != nil:
		return *r.includeCluster && r.both.Match(name)
	default:
		return (r.everything || isNamespaces(gr)) && r.both.Match(name)
	}
}

// Allows reports whether an object of a resource may be included because another included object requires it.
// Namespaced resources must be included themselves. Cluster-scoped ones are allowed unless they are excluded or, in the
// family for both scopes, not included. Namespaces are always allowed.
func (r Resources) Allows(res discovery.Resource) bool {
	gr := res.GroupResource()
	switch {
	case isNamespaces(gr):
		return true
	case res.Namespaced:
		return r.Includes(res)
	case r.scoped:
		return !r.Excludes(res)
	case r.includeCluster != nil:
		return *r.includeCluster && !r.Excludes(res)
	default:
		return !r.isAlways(gr.String()) && r.both.Match(gr.String())
	}
}

// Excludes reports whether a resource is excluded by name, or together with all cluster-scoped resources.
func (r Resources) Excludes(res discovery.Resource) bool {
	name := res.GroupResource().String()
	switch {
	case r.isAlways(name):
		return true
	case r.scoped && res.Namespaced:
		return r.namespaced.Excluded(name)
	case r.scoped:
		return r.cluster.Excluded(name)
	default:
		return r.both.Excluded(name) || !res.Namespaced && r.includeCluster != nil && !*r.includeCluster
	}
}

func (r Resources) isAlways(name string) bool {
	return slices.Contains(r.always, schema.ParseGroupResource(name))
}

func isNamespaces(gr schema.GroupResource) bool {
	return gr == schema.GroupResource{Resource: "namespaces"}
}

// resolveScoped is like ResolveNames and also reports names of the wrong scope as unresolved. They stay in the list,
// because an empty list would include everything.
func resolveScoped(
	names []string, snapshot *discovery.Snapshot, scope func(discovery.Resource) bool,
) (resolved, unresolved []string) {
	resolved, unresolved = ResolveNames(names, snapshot)
	for _, name := range resolved {
		if res, ok := snapshot.ByGroupResource(schema.ParseGroupResource(name)); ok && !scope(res) {
			unresolved = append(unresolved, name)
		}
	}
	return resolved, unresolved
}
