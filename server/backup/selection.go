package backup

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/filter"
	"github.com/cleat-dev/cleat/server/item"
)

// alwaysExcluded returns the resources that are backed up only at the request of an action: they belong to the
// snapshot of a volume.
func alwaysExcluded() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: snapshotsGroup, Resource: "volumesnapshots"},
		{Group: snapshotsGroup, Resource: "volumesnapshotcontents"},
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
