package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/backup/pages"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/filter"
	"github.com/cleat-dev/cleat/server/item"
	"github.com/cleat-dev/cleat/server/results"
)

// alwaysExcluded returns the resources that are backed up only at the request of an action: they belong to the
// snapshot of a volume.
func alwaysExcluded() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"},
		{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"},
	}
}

// selection is what a spec selects in this cluster.
type selection struct {
	snapshot   *discovery.Snapshot
	namespaces filter.Namespaces
	resources  filter.Resources
	selectors  []labels.Selector // an object must match one of them, if there are any
	rules      filter.Rules      // of the resource policy; they replace the selectors where they decide
}

// newSelection resolves the filters of the spec and records names that do not exist.
func (e *engine) newSelection(ctx context.Context, snapshot *discovery.Snapshot) (*selection, error) {
	spec := &e.req.Backup.Spec
	sel := &selection{snapshot: snapshot}
	for _, warning := range snapshot.Warnings() {
		e.warn(warning)
	}
	var err error
	if sel.selectors, err = selectors(spec.LabelSelector, spec.OrLabelSelectors); err != nil {
		return nil, err
	}
	if sel.namespaces, err = e.namespaceFilter(ctx, snapshot); err != nil {
		return nil, err
	}
	var fromPolicy filter.ScopedLists
	if policy := e.req.Policy; policy != nil && policy.Resources != nil {
		fromPolicy = *policy.Resources
	}
	var unresolved []string
	sel.resources, unresolved, err = filter.NewResources(filter.ResourceLists{
		Included: spec.IncludedResources, Excluded: spec.ExcludedResources, IncludeCluster: spec.IncludeClusterResources,
		IncludedClusterScoped: spec.IncludedClusterScopedResources, ExcludedClusterScoped: spec.ExcludedClusterScopedResources,
		IncludedNamespaced: spec.IncludedNamespaceScopedResources, ExcludedNamespaced: spec.ExcludedNamespaceScopedResources,
		Policy: fromPolicy, AlwaysExcluded: alwaysExcluded(),
	}, sel.namespaces, snapshot)
	if err != nil {
		return nil, fmt.Errorf("resource filters of the spec: %w", err)
	}
	if policy := e.req.Policy; policy != nil {
		var warnings []string
		if sel.rules, warnings, err = filter.NewRules(policy.Rules, snapshot); err != nil {
			return nil, fmt.Errorf("resource policy of the backup: %w", err)
		}
		for _, warning := range warnings {
			e.warn("spec.resourcePolicy: " + warning)
		}
	}
	for _, name := range unresolved {
		e.warn(fmt.Sprintf("spec.%s is not a resource of this cluster that this filter can be used for; it matches nothing", name))
	}
	return sel, nil
}

// namespaceFilter resolves the namespaces of the spec against those of the cluster.
func (e *engine) namespaceFilter(ctx context.Context, snapshot *discovery.Snapshot) (filter.Namespaces, error) {
	resource, ok := snapshot.ByGroupResource(namespacesResource)
	if !ok {
		return filter.Namespaces{}, errors.New("the API server does not serve namespaces")
	}
	var existing, excluded, terminating []string
	err := e.eachOf(ctx, pages.List{Resource: resource}, func(raw []byte) error {
		meta, err := item.ParseMeta(raw)
		if err != nil {
			return fmt.Errorf("read a namespace: %w", err)
		}
		existing = append(existing, meta.Name)
		if meta.Labels[excludeLabel] == "true" {
			excluded = append(excluded, meta.Name)
		}
		if meta.Deleting() {
			terminating = append(terminating, meta.Name)
		}
		return nil
	})
	if err != nil {
		return filter.Namespaces{}, fmt.Errorf("list the namespaces of the cluster: %w", err)
	}

	// Namespaces that are labelled for exclusion do not restrict the filter to some namespaces, even if the
	// server has written them into the spec.
	spec := &e.req.Backup.Spec
	var excludes []string
	for _, name := range spec.ExcludedNamespaces {
		if !slices.Contains(excluded, name) {
			excludes = append(excludes, name)
		}
	}
	ns, err := filter.NewNamespaces(spec.IncludedNamespaces, excludes, existing)
	if err != nil {
		return filter.Namespaces{}, fmt.Errorf("namespaces of the spec: %w", err)
	}
	ns = ns.Without(excluded...)
	for _, name := range ns.Missing() {
		e.record.results.RunError(results.Message{Resource: "namespaces", Name: name,
			Text: "namespace of spec.includedNamespaces does not exist"}.String())
		e.log.Error("namespace of spec.includedNamespaces does not exist", "name", name)
	}
	for _, name := range terminating {
		if ns.Match(name) {
			e.record.warned(namespacesResource, name, name, "namespace is terminating, it is left out with the objects in it that are being deleted", nil)
			e.log.Warn("namespace is terminating", "namespace", name)
		}
	}
	if ns.Expanded() && len(ns.List()) == 0 {
		e.warn(fmt.Sprintf("no namespace matches the patterns of spec.includedNamespaces %s", strings.Join(spec.IncludedNamespaces, ", ")))
	}
	return ns, nil
}

// selectors returns the label selectors of the spec, of which an object must match one.
func selectors(one *metav1.LabelSelector, several []*metav1.LabelSelector) ([]labels.Selector, error) {
	if one != nil && len(several) > 0 {
		return nil, errors.New("spec.labelSelector and spec.orLabelSelectors cannot be used together")
	}
	if one != nil {
		several = []*metav1.LabelSelector{one}
	}
	var parsed []labels.Selector
	for _, s := range several {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			return nil, fmt.Errorf("label selector of the spec: %w", err)
		}
		parsed = append(parsed, selector)
	}
	return parsed, nil
}

// queries returns the selectors as they are sent to the API server, one for each list. Rules are applied to what the lists
// hold.
func (s *selection) queries() []string {
	if len(s.selectors) == 0 || s.rules.Any() {
		return []string{""}
	}
	var queries []string
	for _, selector := range s.selectors {
		queries = append(queries, selector.String())
	}
	return queries
}

// matches reports whether labels match a selector of the spec. All do if there is none.
func (s *selection) matches(objectLabels map[string]string) bool {
	for _, selector := range s.selectors {
		if selector.Matches(labels.Set(objectLabels)) {
			return true
		}
	}
	return len(s.selectors) == 0
}

// selects reports whether a rule for an object selects it or, where there is no rule, a selector of the spec.
func (s *selection) selects(res discovery.Resource, meta item.Meta) bool {
	selected, decided := s.rules.Select(res.GroupResource(), res.Kind, meta.Namespace, meta.Name, meta.Labels)
	if decided {
		return selected
	}
	return s.matches(meta.Labels)
}

// warn records a warning about the backup as a whole.
func (e *engine) warn(text string) {
	e.record.results.RunWarning(results.Message{Text: text}.String())
	e.log.Warn(text)
}
