package filter

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/discovery"
)

// ResourceLists are the resource filters of a spec. They are of two families that exclude each other:
// the first three fields, for resources of both scopes, and the four scoped lists. When none is set,
// everything is included.
type ResourceLists struct {
	Included, Excluded    []string
	IncludeCluster        *bool // nil: as the namespaces are, see Resources.Includes
	IncludedClusterScoped []string
	ExcludedClusterScoped []string
	IncludedNamespaced    []string
	ExcludedNamespaced    []string
	Policy                ScopedLists            // what the scoped lists leave open; not with the other family
	AlwaysExcluded        []schema.GroupResource // left out without counting as a filter
}

// scoped says which family is used. The scoped one is, when none is set.
func (l ResourceLists) scoped() bool {
	return len(l.Included) == 0 && len(l.Excluded) == 0 && l.IncludeCluster == nil
}

// Resources decides by type what is backed up or restored.
type Resources struct {
	always     []schema.GroupResource
	everything bool // cluster-scoped resources are taken unless excluded, because all else is
	scoped     bool

	both           Names // of the family for both scopes
	includeCluster *bool

	namespaced Names // of the scoped family
	cluster    Names
}

// NewResources resolves the lists. unresolved are names, as "field: name", that are no resource of
// the cluster or one of the wrong scope; they match nothing. Globs are matched against
// "resource.group". Errors are globs that cannot be parsed and lists of both families.
func NewResources(lists ResourceLists, namespaces Namespaces, snapshot *discovery.Snapshot) (r Resources, unresolved []string, err error) {
	r = Resources{always: lists.AlwaysExcluded, scoped: lists.scoped(), includeCluster: lists.IncludeCluster}
	resolve := func(field string, names []string, scope func(discovery.Resource) bool) []string {
		resolved, unknown := resolveScoped(names, snapshot, scope)
		for _, name := range slices.DeleteFunc(unknown, r.isAlways) { // a cluster need not know those
			unresolved = append(unresolved, field+": "+name)
		}
		return resolved
	}
	// What is excluded anyway must not make an exclude list a filter, e.g. when the server wrote it there.
	others := func(names []string) []string {
		return slices.DeleteFunc(names, r.isAlways)
	}
	either := func(discovery.Resource) bool { return true }
	namespaced := func(res discovery.Resource) bool { return res.Namespaced }
	cluster := func(res discovery.Resource) bool { return !res.Namespaced }

	if !r.scoped {
		if len(lists.IncludedClusterScoped)+len(lists.ExcludedClusterScoped)+len(lists.IncludedNamespaced)+len(lists.ExcludedNamespaced) > 0 || !lists.Policy.empty() {
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

// Includes says whether the objects of the resource are taken by themselves.
//
// For both scopes: a cluster-scoped resource is taken by the lists, but not when includeClusterResources
// is false, nor when that is absent and not all namespaces are taken. Scoped: a cluster-scoped
// resource is taken when it is listed, or when none is listed and all namespaces and all namespaced
// resources are taken; excludes win. Namespaces themselves are taken wherever they are not excluded.
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

// Allows says whether an object of the resource may be taken because another object of the backup
// asks for it. Namespaced ones must be included. Cluster-scoped ones may come unless they are
// excluded, or, with the filters for both scopes, not included. Namespaces may always come.
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

// Excludes says whether the resource is excluded by name, or with all cluster-scoped ones.
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

// resolveScoped is ResolveNames that keeps names of the wrong scope apart: they stay in the list, so
// that a list of nothing else does not become an empty one, which would mean everything.
func resolveScoped(names []string, snapshot *discovery.Snapshot, scope func(discovery.Resource) bool) (resolved, unresolved []string) {
	resolved, unresolved = ResolveNames(names, snapshot)
	for _, name := range resolved {
		if res, ok := snapshot.ByGroupResource(schema.ParseGroupResource(name)); ok && !scope(res) {
			unresolved = append(unresolved, name)
		}
	}
	return resolved, unresolved
}
