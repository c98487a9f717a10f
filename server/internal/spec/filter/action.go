package filter

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// Action is the selector of a plugin's action, resolved against a cluster once per run.
type Action struct {
	resources  Names
	namespaces Names
	selector   labels.Selector
}

// Resolve compiles a selector. It resolves resource names through discovery and keeps names that cannot be resolved, so
// that they match nothing rather than everything. It ignores "*" in a list of excludes, and returns an error for a glob
// or a label selector that cannot be parsed.
func Resolve(selector framework.ResourceSelector, snapshot *discovery.Snapshot) (Action, error) {
	included, _ := ResolveNames(selector.IncludedResources, snapshot)
	excluded, _ := ResolveNames(selector.ExcludedResources, snapshot)
	resources, err := NewNames(included, withoutStar(excluded))
	if err != nil {
		return Action{}, fmt.Errorf("resources of the selector: %w", err)
	}
	namespaces, err := NewNames(selector.IncludedNamespaces, withoutStar(selector.ExcludedNamespaces))
	if err != nil {
		return Action{}, fmt.Errorf("namespaces of the selector: %w", err)
	}
	parsed, err := labels.Parse(selector.LabelSelector)
	if err != nil {
		return Action{}, fmt.Errorf("label selector %q of the selector: %w", selector.LabelSelector, err)
	}
	return Action{resources: resources, namespaces: namespaces, selector: parsed}, nil
}

// Concerns reports whether the action may apply to objects of a type, depending on their namespaces and labels.
func (a Action) Concerns(gr schema.GroupResource) bool { return a.resources.Match(gr.String()) }

// Matches reports whether the action applies to an object with the given type, namespace and labels. The namespace of a
// cluster-scoped object is empty; only actions for all namespaces apply to it. objectLabels is not called if the rest
// does not match.
func (a Action) Matches(gr schema.GroupResource, namespace string, objectLabels func() map[string]string) bool {
	inNamespace := a.namespaces.Match(namespace)
	if namespace == "" {
		inNamespace = a.namespaces.Everything()
	}
	if !inNamespace || !a.resources.Match(gr.String()) {
		return false
	}
	return a.selector == nil || a.selector.Matches(labels.Set(objectLabels()))
}

// ResolveNames returns resource names in the form "resource.group", which for the core group is "resource". It keeps
// globs and names that cannot be resolved as they are. Names that cannot be resolved, and globs that match no resource,
// are in unresolved too.
func ResolveNames(names []string, snapshot *discovery.Snapshot) (resolved, unresolved []string) {
	for _, name := range names {
		if gr, ok := snapshot.Resolve(name); ok {
			resolved = append(resolved, gr.String())
			continue
		}
		resolved = append(resolved, name)
		if !matchesResource(name, snapshot) {
			unresolved = append(unresolved, name)
		}
	}
	return resolved, unresolved
}

// matchesResource reports whether a glob matches a resource. It is true for one that cannot be compiled, which is an
// error elsewhere.
func matchesResource(name string, snapshot *discovery.Snapshot) bool {
	if !IsGlob(name) {
		return false
	}
	pattern, err := newList([]string{name})
	return err != nil || slices.ContainsFunc(snapshot.Resources(),
		func(r discovery.Resource) bool { return pattern.match(r.GroupResource().String()) })
}

func withoutStar(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "*" })
}
