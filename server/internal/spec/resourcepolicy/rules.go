package resourcepolicy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// These types describe the filters per namespace and kind in the document, with Velero's names.
type (
	clusterFilters struct {
		ResourceFilters []resourceFilter `json:"resourceFilters"`
	}
	namespaceFilter struct {
		Namespaces      []string         `json:"namespaces"`
		ResourceFilters []resourceFilter `json:"resourceFilters"`
	}
	resourceFilter struct {
		Kinds            []string                `json:"kinds"`
		LabelSelector    *metav1.LabelSelector   `json:"labelSelector"`
		OrLabelSelectors []*metav1.LabelSelector `json:"orLabelSelectors"`
		Names            []string                `json:"names"`
		ExcludedNames    []string                `json:"excludedNames"`
	}
)

// rules validates the filters per namespace and kind. Its errors begin with the name of the field.
func (d *document) rules() (lists filter.RuleLists, err error) {
	if policy := d.ClusterScopedFilterPolicy; policy != nil {
		if lists.Cluster, err = rulesOf(policy.ResourceFilters); err != nil {
			return lists, fmt.Errorf("clusterScopedFilterPolicy.%w", err)
		}
		for i, rule := range lists.Cluster {
			if rule.Rest() {
				return lists, fmt.Errorf("clusterScopedFilterPolicy.resourceFilters[%d].kinds: name the kinds; cluster-scoped "+
					"kinds without a filter are selected by the other filters", i)
			}
		}
	}
	seen := map[string]int{}
	for i, namespaces := range d.NamespacedFilterPolicies {
		field := fmt.Sprintf("namespacedFilterPolicies[%d]", i)
		if len(namespaces.Namespaces) == 0 {
			return lists, fmt.Errorf("%s.namespaces: it is empty, want names or patterns of namespaces", field)
		}
		for _, name := range namespaces.Namespaces {
			if err := filter.CheckNamespacePattern(name); err != nil {
				return lists, fmt.Errorf("%s.namespaces: %w", field, err)
			}
			if earlier, ok := seen[name]; ok {
				return lists, fmt.Errorf("%s.namespaces: %s is also in namespacedFilterPolicies[%d], want it in only one of them",
					field, name, earlier)
			}
			seen[name] = i
		}
		rules, err := rulesOf(namespaces.ResourceFilters)
		if err != nil {
			return lists, fmt.Errorf("%s.%w", field, err)
		}
		lists.Namespaces = append(lists.Namespaces, filter.NamespaceRules{Namespaces: namespaces.Namespaces, Rules: rules})
	}
	return lists, nil
}

func rulesOf(filters []resourceFilter) ([]filter.Rule, error) {
	if len(filters) == 0 {
		return nil, errors.New("resourceFilters: it is empty, want a filter; remove the policy if it is not needed")
	}
	var rules []filter.Rule
	kinds, rest := map[string]int{}, false
	for i := range filters {
		rule, err := filters[i].rule()
		if err != nil {
			return nil, fmt.Errorf("resourceFilters[%d].%w", i, err)
		}
		if rule.Rest() {
			if rest {
				return nil, fmt.Errorf("resourceFilters[%d].kinds: another filter is already for all other kinds, want one", i)
			}
			rest = true
		}
		for _, kind := range rule.Kinds {
			kind = strings.ToLower(kind)
			if earlier, ok := kinds[kind]; ok && kind != "*" {
				return nil, fmt.Errorf("resourceFilters[%d].kinds: %s is also in resourceFilters[%d], want it in only one of them",
					i, kind, earlier)
			}
			kinds[kind] = i
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// rule converts a filter. Its errors begin with the name of the field.
func (f *resourceFilter) rule() (rule filter.Rule, err error) {
	rule.Kinds = f.Kinds
	if slices.Contains(f.Kinds, "") {
		return rule, errors.New("kinds: one of them is empty")
	}
	if rule.Rest() && len(f.Names)+len(f.ExcludedNames) > 0 {
		return rule, errors.New("names: they need kinds, whose objects they name")
	}
	one := f.LabelSelector
	if one != nil && len(one.MatchLabels)+len(one.MatchExpressions) == 0 {
		one = nil
	}
	if one != nil && len(f.OrLabelSelectors) > 0 {
		return rule, errors.New("orLabelSelectors: labelSelector is set too, want one of them")
	}
	selectors, field := f.OrLabelSelectors, "orLabelSelectors"
	if one != nil {
		selectors, field = []*metav1.LabelSelector{one}, "labelSelector"
	}
	for _, selector := range selectors {
		if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			continue // as in Velero, it is not one
		}
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return rule, fmt.Errorf("%s: %w", field, err)
		}
		rule.Selectors = append(rule.Selectors, parsed)
	}
	if rule.Names, err = filter.NewNames(f.Names, f.ExcludedNames); err != nil {
		return rule, fmt.Errorf("names: %w", err)
	}
	return rule, nil
}
