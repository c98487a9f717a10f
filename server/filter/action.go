package filter

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/discovery"
)

// Action is the selector of a plugin's action, resolved against a cluster once for an operation.
type Action struct {
	resources  Names
	namespaces Names
	selector   labels.Selector
}

// Resolve turns what an action applies to into something that can be matched. Resource names are
// resolved through discovery; what cannot be resolved is kept as it is, so that it matches nothing
// rather than everything. "*" in a list of excludes is ignored. A glob or a label selector that
// cannot be parsed is an error.
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

// Matches says whether the action wants an object of that type, namespace ("" for a cluster-scoped
// one) and labels. A cluster-scoped object is wanted only by an action for all namespaces.
func (a Action) Matches(gr schema.GroupResource, namespace string, objectLabels map[string]string) bool {
	return a.MatchesType(gr, namespace) && a.MatchesLabels(objectLabels)
}

// MatchesType is Matches without the labels.
func (a Action) MatchesType(gr schema.GroupResource, namespace string) bool {
	if !a.resources.Match(gr.String()) {
		return false
	}
	if namespace == "" {
		return a.namespaces.Everything()
	}
	return a.namespaces.Match(namespace)
}

// MatchesLabels is the part of Matches that looks at the labels.
func (a Action) MatchesLabels(objectLabels map[string]string) bool {
	return a.selector == nil || a.selector.Matches(labels.Set(objectLabels))
}

// ResolveNames turns resource names as people write them into "resource.group" (core: "resource").
// "*" and what cannot be resolved are kept as they are; the latter, unless it is a glob, is in
// unresolved too.
func ResolveNames(names []string, snapshot *discovery.Snapshot) (resolved, unresolved []string) {
	for _, name := range names {
		if gr, ok := snapshot.Resolve(name); ok {
			resolved = append(resolved, gr.String())
			continue
		}
		resolved = append(resolved, name)
		if !IsGlob(name) {
			unresolved = append(unresolved, name)
		}
	}
	return resolved, unresolved
}

func withoutStar(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "*" })
}
