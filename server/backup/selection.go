package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/filter"
	"github.com/cleat-dev/cleat/server/item"
	"github.com/cleat-dev/cleat/server/results"
)

// alwaysExcluded are never backed up for themselves: they belong to the snapshot of a volume.
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
}

// newSelection resolves the filters of the spec, and records what they name that does not exist.
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
	var existing, hidden, ending []string
	hide := map[string]bool{}
	err := e.eachOf(ctx, list{resource: resource}, func(raw []byte) error {
		meta, err := item.ParseMeta(raw)
		if err != nil {
			return fmt.Errorf("read a namespace: %w", err)
		}
		existing = append(existing, meta.Name)
		if meta.Labels[excludeLabel] == "true" {
			hidden, hide[meta.Name] = append(hidden, meta.Name), true
		}
		if meta.Deleting() {
			ending = append(ending, meta.Name)
		}
		return nil
	})
	if err != nil {
		return filter.Namespaces{}, fmt.Errorf("list the namespaces of the cluster: %w", err)
	}

	// Namespaces that ask to be left out do not make the filter one for some namespaces only, even if
	// the server has written them into the spec.
	spec := &e.req.Backup.Spec
	var excludes []string
	for _, name := range spec.ExcludedNamespaces {
		if !hide[name] {
			excludes = append(excludes, name)
		}
	}
	ns, err := filter.NewNamespaces(spec.IncludedNamespaces, excludes, existing)
	if err != nil {
		return filter.Namespaces{}, fmt.Errorf("namespaces of the spec: %w", err)
	}
	ns = ns.Without(hidden...)
	for _, name := range ns.Missing() {
		e.record.results.OperationError(results.Message{Resource: "namespaces", Name: name,
			Text: "namespace of spec.includedNamespaces does not exist"}.String())
		e.log.Error("namespace of spec.includedNamespaces does not exist", "name", name)
	}
	for _, name := range ending {
		if ns.Match(name) {
			e.record.warned(namespacesResource, name, name, "namespace is terminating, it and what is being deleted in it is left out", nil)
			e.log.Warn("namespace is terminating", "namespace", name)
		}
	}
	if ns.Expanded() && len(ns.List()) == 0 {
		e.warn(fmt.Sprintf("no namespace matches the patterns of spec.includedNamespaces %s", strings.Join(spec.IncludedNamespaces, ", ")))
	}
	return ns, nil
}

// selectors are the label selectors of the spec, of which an object must match one.
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

// queries are the selectors as they are sent to the API server, one for each list.
func (s *selection) queries() []string {
	if len(s.selectors) == 0 {
		return []string{""}
	}
	var queries []string
	for _, selector := range s.selectors {
		queries = append(queries, selector.String())
	}
	return queries
}

// matches says whether labels match the selectors of the spec, as those of all objects do if there are
// none.
func (s *selection) matches(objectLabels map[string]string) bool {
	for _, selector := range s.selectors {
		if selector.Matches(labels.Set(objectLabels)) {
			return true
		}
	}
	return len(s.selectors) == 0
}

// eachOf reads one list to its end, page by page.
func (e *engine) eachOf(ctx context.Context, l list, use func(raw []byte) error) error {
	var failure error
	reader := newPages(e.client, pageSize(e.deps), []list{l}, func(int) {})
	err := reader.each(ctx, func(*list) error { return nil }, func(p *page) error {
		for _, raw := range p.items {
			if err := use(raw); err != nil {
				return err
			}
		}
		return nil
	}, func(_ *list, err error) { failure = err })
	return errors.Join(err, failure)
}

// warn records a warning about the backup as a whole.
func (e *engine) warn(text string) {
	e.record.results.OperationWarning(results.Message{Text: text}.String())
	e.log.Warn(text)
}
