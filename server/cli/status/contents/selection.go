package contents

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// Filters are the filters of a backup, with the names and the meaning that they have there, and the text of a search.
type Filters struct {
	IncludedNamespaces, ExcludedNamespaces []string
	Resources                              filter.ResourceLists
	Selectors                              []*metav1.LabelSelector // of which one must match
	// Name is a part of the names of the items, in upper or lower case.
	Name string
}

// Everything reports whether there are no filters.
func (f *Filters) Everything() bool {
	return len(f.IncludedNamespaces)+len(f.ExcludedNamespaces)+len(f.Selectors) == 0 && f.Name == "" &&
		f.Resources.IncludeCluster == nil &&
		!slices.ContainsFunc(listsOf(&f.Resources), func(names *[]string) bool { return len(*names) > 0 })
}

// listsOf returns the lists of resources.
func listsOf(l *filter.ResourceLists) []*[]string {
	return []*[]string{
		&l.Included, &l.Excluded, &l.IncludedClusterScoped, &l.ExcludedClusterScoped, &l.IncludedNamespaced,
		&l.ExcludedNamespaced,
	}
}

// Selection selects items as a backup does with the same filters. It gets the items in the order of a manifest, and is
// for one reading of one manifest.
//
// A name of a resource without a group is one of Kubernetes' own resources, or else stands for all custom resources of
// that name.
type Selection struct {
	filters    Filters
	name       string               // in lower case
	lists      filter.ResourceLists // with the full names of Kubernetes' own resources
	namespaces filter.Namespaces
	labels     []labels.Selector

	resource    schema.GroupResource // of the last item
	included    bool                 // whether it is
	inNamespace map[string]bool
	found       map[string]bool // names of resources that some item has
}

// NewSelection returns the selection that filters describe.
func NewSelection(filters Filters) (*Selection, error) {
	s := &Selection{filters: filters, name: strings.ToLower(filters.Name), inNamespace: map[string]bool{},
		found: map[string]bool{}}
	var err error
	if s.namespaces, err = filter.NewNamespaces(filters.IncludedNamespaces, filters.ExcludedNamespaces,
		nil); err != nil {
		return nil, err
	}
	for _, one := range filters.Selectors {
		selector, err := metav1.LabelSelectorAsSelector(one)
		if err != nil {
			return nil, err
		}
		s.labels = append(s.labels, selector)
	}
	s.lists = filters.Resources
	for _, names := range listsOf(&s.lists) {
		*names, _ = filter.ResolveNames(*names, itemname.BuiltIns())
	}
	// Patterns and families must be as they are in a spec.
	_, _, err = filter.NewResources(s.lists, s.namespaces, itemname.BuiltIns())
	return s, err
}

// Match reports whether an item is selected.
func (s *Selection) Match(item *manifest.Item) (bool, error) {
	if in, err := s.includes(item.APIGroup, item.Resource, item.APIVersion, item.ItemKind,
		item.Namespace); err != nil || !in {
		return false, err
	}
	if s.name != "" && !strings.Contains(strings.ToLower(item.Name), s.name) {
		return false, nil
	}
	if isNamespaces(item.APIGroup, item.Resource) && !s.namespaces.Everything() {
		return s.includesNamespace(item.Name)
	}
	return len(s.labels) == 0 ||
		slices.ContainsFunc(s.labels, func(l labels.Selector) bool { return l.Matches(labels.Set(item.Labels)) }), nil
}

// needsItems reports whether it depends on more than its resource and namespace whether an item is selected.
func (s *Selection) needsItems() bool { return s.name != "" || len(s.labels) > 0 }

// needsItemsOf reports whether that is so for the items of a resource.
func (s *Selection) needsItemsOf(r run) bool {
	return s.needsItems() || isNamespaces(r.Group, r.Resource) && !s.namespaces.Everything()
}

func isNamespaces(group, resource string) bool { return group == "" && resource == "namespaces" }

// includes reports whether items of a resource and namespace may be selected.
func (s *Selection) includes(group, resource, version, kind, namespace string) (bool, error) {
	if gr := (schema.GroupResource{Group: group, Resource: resource}); gr != s.resource {
		snapshot := itemname.Alone(gr, version, kind, namespace != "")
		alone, _ := snapshot.ByGroupResource(gr)
		resources, _, err := filter.NewResources(s.lists, s.namespaces, snapshot)
		if err != nil {
			return false, err
		}
		s.resource, s.included = gr, resources.Includes(alone)
		for _, names := range listsOf(&s.lists) {
			for _, name := range *names {
				if _, ok := snapshot.Resolve(name); ok {
					s.found[name] = true
				}
			}
		}
	}
	if !s.included || namespace == "" {
		return s.included, nil
	}
	return s.includesNamespace(namespace)
}

func (s *Selection) includesNamespace(name string) (bool, error) {
	in, known := s.inNamespace[name]
	if !known {
		namespaces, err := filter.NewNamespaces(s.filters.IncludedNamespaces, s.filters.ExcludedNamespaces,
			[]string{name})
		if err != nil {
			return false, err
		}
		in = namespaces.Match(name)
		s.inNamespace[name] = in
	}
	return in, nil
}

// Unknown returns a sentence for each resource that the filters name and no item has. The whole manifest must have been
// read.
func (s *Selection) Unknown() []string {
	var sentences []string
	for _, names := range listsOf(&s.lists) {
		for _, name := range *names {
			if name != "*" && !filter.IsGlob(name) && !s.found[name] {
				sentences = append(sentences, fmt.Sprintf("the backup has no items of the resource %s", name))
			}
		}
	}
	slices.Sort(sentences)
	return slices.Compact(sentences)
}

// restrict sets those of wanted to false whose blocks have no selected items.
func (s *Selection) restrict(wanted []bool, x *index) error {
	i := 0
	for piece, err := range x.runs.pieces() {
		if err != nil {
			return err
		}
		some := false
		for r := range decodeRuns(piece) {
			in, err := s.includes(r.Group, r.Resource, r.version, r.kind, r.Namespace)
			if err != nil {
				return err
			}
			some = some || in
		}
		wanted[i] = wanted[i] && some
		i++
	}
	if s.name != "" {
		i, name := 0, []byte(s.name)
		for piece, err := range x.names.pieces() {
			if err != nil {
				return err
			}
			wanted[i] = wanted[i] && bytes.Contains(piece, name)
			i++
		}
	}
	if len(s.labels) == 0 || !s.namespaces.Everything() { // a namespace is selected without its labels
		return nil
	}
	return s.restrictByLabels(wanted, x)
}

// restrictByLabels sets those of wanted to false whose blocks have no item with the labels.
func (s *Selection) restrictByLabels(wanted []bool, x *index) error {
	var alternatives [][][]uint32 // each of some requirements, for which one of some tokens is there
	for _, selector := range s.labels {
		var all [][]uint32
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			var one []uint32
			switch r.Operator() {
			case selection.Equals, selection.DoubleEquals, selection.In:
				for _, value := range r.ValuesUnsorted() {
					one = append(one, x.token("value", r.Key(), value))
				}
			case selection.Exists:
				one = append(one, x.token("label", r.Key()))
			default: // which items without labels may fulfill
				continue
			}
			all = append(all, one)
		}
		alternatives = append(alternatives, all)
	}
	i := 0
	for piece, err := range x.tokens.pieces() {
		if err != nil {
			return err
		}
		wanted[i] = wanted[i] && slices.ContainsFunc(alternatives, func(all [][]uint32) bool {
			return !slices.ContainsFunc(all, func(one []uint32) bool {
				return !slices.ContainsFunc(one, func(token uint32) bool { return hasToken(piece, token) })
			})
		})
		i++
	}
	return nil
}
