package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// resolve returns names of resources in the form "resource.group". It resolves names that the cluster does not serve
// against the backup, and records them as unresolved.
func (s *Selection) resolve(r *resolved, names []string, snapshot *discovery.Snapshot) []string {
	full, unresolved := filter.ResolveNames(names, snapshot)
	for _, name := range unresolved {
		if slices.Contains(NonRestorableResources(), name) {
			continue // the server always excludes them
		}
		if !slices.Contains(r.unresolved, name) {
			r.unresolved = append(r.unresolved, name)
		}
		if gr, ok := s.archived(name); ok {
			full[slices.Index(full, name)] = gr.String()
		}
	}
	return full
}

// archived finds a resource of the backup by its plural name, optionally with its group or a prefix of it.
func (s *Selection) archived(name string) (schema.GroupResource, bool) {
	wanted := schema.ParseGroupResource(strings.ToLower(name))
	for _, gr := range s.backup.Resources() {
		if gr.Resource == wanted.Resource && strings.HasPrefix(gr.Group, wanted.Group) {
			return gr, true
		}
	}
	return schema.GroupResource{}, false
}

// Unresolved returns the names of resources in the spec that the cluster does not serve, and patterns that match none
// of its resources.
func (s *Selection) Unresolved() []string { return s.resolved.Load().unresolved }

// Unmatched returns a text for each name in the spec, and in its resource policy, that matches nothing in the backup.
func (s *Selection) Unmatched() []string {
	var texts []string
	for _, name := range s.namespaces.Missing() {
		texts = append(texts, fmt.Sprintf("namespace %s of includedNamespaces is not in the backup", name))
	}
	for _, name := range s.namespaces.Unmatched() {
		texts = append(texts, fmt.Sprintf("spec.%s matches no namespace of the backup", name))
	}
	for _, source := range slices.Sorted(maps.Keys(s.spec.NamespaceMapping)) {
		switch target := s.spec.NamespaceMapping[source]; {
		case !slices.Contains(s.present, source):
			texts = append(texts, fmt.Sprintf("spec.namespaceMapping: namespace %s is not in the backup, so nothing is "+
				"restored into %s in its place", source, target))
		case !s.namespaces.Match(source):
			texts = append(texts, fmt.Sprintf("spec.namespaceMapping: namespace %s is not restored into %s, because the "+
				"restore does not include it", source, target))
		}
	}
	now := s.resolved.Load()
	texts = append(texts, s.unmatchedResources("spec.includedResources", s.spec.IncludedResources,
		now.resources.Includes(), s.isHeld)...)
	texts = append(texts, s.unmatchedResources("spec.excludedResources", s.spec.ExcludedResources,
		now.resources.Excludes(), s.isKnown)...)
	if status := s.spec.RestoreStatus; status != nil {
		texts = append(texts, s.unmatchedResources("spec.restoreStatus.includedResources", status.IncludedResources,
			now.status.Includes(), s.isHeld)...)
		texts = append(texts, s.unmatchedResources("spec.restoreStatus.excludedResources", status.ExcludedResources,
			now.status.Excludes(), s.isKnown)...)
	}
	for _, name := range s.namespaces.Absent(s.policy.NamespaceNames()) {
		texts = append(texts, fmt.Sprintf("spec.resourcePolicy: namespacedFilterPolicies: %s matches no namespace of the "+
			"backup", name))
	}
	return append(texts, s.unmatchedHooks()...)
}

// unmatchedHooks returns a text for each namespace in a hook that is not the target of any object.
func (s *Selection) unmatchedHooks() []string {
	var targets []string
	for _, source := range s.namespaces.List() {
		targets = append(targets, s.Target(source))
	}
	var texts []string
	for i := range s.spec.Hooks.Resources {
		hook := &s.spec.Hooks.Resources[i]
		for _, name := range filter.Absent(slices.Concat(hook.IncludedNamespaces, hook.ExcludedNamespaces), targets) {
			texts = append(texts, fmt.Sprintf("spec.hooks: hook %s: %s matches no namespace that is restored into", hook.Name,
				name))
		}
	}
	return texts
}

// UnmatchedSelectors returns a text for each label selector that has matched no object of the backup so far.
func (s *Selection) UnmatchedSelectors() []string {
	var texts []string
	for _, selector := range s.selectors.Unmatched() {
		texts = append(texts, fmt.Sprintf("label selector %q matches no object that the other filters of the restore include",
			selector))
	}
	return texts
}

// unmatchedResources returns a text for each name of a list that is not fine. resolved has the names in the form
// "resource.group".
func (s *Selection) unmatchedResources(
	field string, names, resolved []string, fine func(resolved string) bool,
) []string {
	var texts []string
	for i, name := range names {
		switch {
		case name == "*" || slices.Contains(NonRestorableResources(), name) || fine(resolved[i]):
		case slices.Contains(s.resolved.Load().unresolved, name):
			texts = append(texts, fmt.Sprintf("%s: %s is a resource neither of the cluster nor of the backup; write a plural "+
				"name such as pods or deployments.apps", field, name))
		default:
			texts = append(texts, fmt.Sprintf("%s: the backup contains no %s", field, name))
		}
	}
	return texts
}

// isHeld reports whether the backup contains objects of a resource, or of a resource that a glob matches.
func (s *Selection) isHeld(name string) bool {
	one, err := filter.NewNames([]string{name}, nil)
	return err == nil && slices.ContainsFunc(s.backup.Resources(),
		func(gr schema.GroupResource) bool { return one.Match(gr.String()) })
}

// isKnown reports whether the cluster serves a resource, or the backup contains objects of it.
func (s *Selection) isKnown(name string) bool {
	return !slices.Contains(s.resolved.Load().unresolved, name) || s.isHeld(name)
}
