package backup

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// preflight records names in the spec that match nothing in this cluster, other than names in the filters.
func (e *engine) preflight() {
	spec := &e.req.Backup.Spec
	for _, name := range slices.Sorted(maps.Keys(spec.OrderedResources)) {
		gr, ok := e.sel.snapshot.Resolve(name)
		resource, known := e.sel.snapshot.ByGroupResource(gr)
		switch {
		case !ok || !known:
			e.warn("spec.orderedResources: " + name + " is not a resource of this cluster; write a plural name such as pods " +
				"or deployments.apps")
		case gr == namespacesResource:
			e.warn("spec.orderedResources: " + name + " has no effect: namespaces are backed up last, because the other " +
				"objects may decide which belong to the backup")
		case !e.sel.resources.Includes(resource):
			e.warn("spec.orderedResources: " + name + " has no effect: the filters of the backup do not include the resource")
		}
	}
	for i := range spec.Hooks.Resources {
		hook := &spec.Hooks.Resources[i]
		for _, name := range e.sel.namespaces.Absent(slices.Concat(hook.IncludedNamespaces, hook.ExcludedNamespaces)) {
			e.warn(fmt.Sprintf("spec.hooks: hook %s: %s matches no namespace of the cluster", hook.Name, name))
		}
		_, unresolved := filter.ResolveNames(slices.Concat(hook.IncludedResources, hook.ExcludedResources), e.sel.snapshot)
		for _, name := range unresolved {
			e.warn(fmt.Sprintf("spec.hooks: hook %s: %s is not a resource of this cluster", hook.Name, name))
		}
	}
	if policy := e.req.Policy; policy != nil {
		for _, name := range e.sel.namespaces.Absent(policy.Rules.NamespaceNames()) {
			e.warn(fmt.Sprintf("spec.resourcePolicy: namespacedFilterPolicies: %s matches no namespace of the cluster", name))
		}
	}
}

// resourceNames returns the names of resources in the spec.
func (e *engine) resourceNames() []string {
	spec := &e.req.Backup.Spec
	names := slices.Concat(spec.IncludedResources, spec.ExcludedResources, spec.IncludedClusterScopedResources,
		spec.ExcludedClusterScopedResources,
		spec.IncludedNamespaceScopedResources, spec.ExcludedNamespaceScopedResources,
		slices.Sorted(maps.Keys(spec.OrderedResources)))
	return slices.DeleteFunc(names, isAlwaysExcluded)
}

// warnOfIdle records settings of the spec for objects of the cluster that have matched no object.
func (e *engine) warnOfIdle() {
	for _, selector := range e.sel.selectors.Unmatched() {
		e.warn(fmt.Sprintf("label selector %q matches no object that the other filters of the backup include", selector))
	}
	if e.hooks == nil {
		return
	}
	for _, name := range e.hooks.Unmatched() {
		e.warn(fmt.Sprintf("spec.hooks: hook %s applies to no pod of the backup", name))
	}
}

// gap records a warning about a request of the spec that the server does not support.
func (e *engine) gap(warning string) {
	e.record.gap(warning)
	e.warn(warning)
}
