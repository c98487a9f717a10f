package manifest

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// selectionFlags are the filters of a backup.
type selectionFlags struct {
	includedNamespaces, excludedNamespaces []string
	resources                              filter.ResourceLists
	selectors                              command.LabelSelectors
}

// Add adds the flags. They have the names and the meaning that they have for a new backup.
func (f *selectionFlags) Add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.includedNamespaces, "include-namespaces", nil,
		"only items of these namespaces, names or patterns")
	flags.StringSliceVar(&f.excludedNamespaces, "exclude-namespaces", nil, "no items of these namespaces")
	flags.StringSliceVar(&f.resources.Included, "include-resources", nil,
		"only items of these resources: plural, kind or short name, with or without a group")
	flags.StringSliceVar(&f.resources.Excluded, "exclude-resources", nil, "no items of these resources")
	flags.StringSliceVar(&f.resources.IncludedClusterScoped, "include-cluster-scoped-resources", nil,
		"only cluster-scoped items of these resources")
	flags.StringSliceVar(&f.resources.ExcludedClusterScoped, "exclude-cluster-scoped-resources", nil,
		"no cluster-scoped items of these resources")
	flags.StringSliceVar(&f.resources.IncludedNamespaced, "include-namespace-scoped-resources", nil,
		"only namespaced items of these resources")
	flags.StringSliceVar(&f.resources.ExcludedNamespaced, "exclude-namespace-scoped-resources", nil,
		"no namespaced items of these resources")
	command.AddOptionalBool(flags, &f.resources.IncludeCluster, "include-cluster-resources",
		"cluster-scoped items too, or not")
	f.selectors.Add(flags)
}

// Build returns the selection that the flags describe.
func (f *selectionFlags) Build() (*selection, error) {
	s := &selection{flags: f, inNamespace: map[string]bool{}, found: map[string]bool{}}
	var err error
	if s.namespaces, err = filter.NewNamespaces(f.includedNamespaces, f.excludedNamespaces, nil); err != nil {
		return nil, err
	}
	one, alternatives, err := f.selectors.Parse()
	if err != nil {
		return nil, err
	}
	if one != nil {
		alternatives = []*metav1.LabelSelector{one}
	}
	for _, alternative := range alternatives {
		selector, err := metav1.LabelSelectorAsSelector(alternative)
		if err != nil {
			return nil, err
		}
		s.labels = append(s.labels, selector)
	}
	s.lists = f.resources
	for _, names := range s.names() {
		*names, _ = filter.ResolveNames(*names, itemname.BuiltIns())
	}
	// Patterns and families must be as they are in a spec.
	_, _, err = filter.NewResources(s.lists, s.namespaces, itemname.BuiltIns())
	return s, err
}

// selection selects items as a backup does with the same filters. It gets the items in the order of a manifest.
//
// A name of a resource without a group is one of Kubernetes' own resources, or else stands for all custom resources of
// that name.
type selection struct {
	flags      *selectionFlags
	lists      filter.ResourceLists // with the full names of Kubernetes' own resources
	namespaces filter.Namespaces
	labels     []labels.Selector

	resource    schema.GroupResource // of the last item
	included    bool                 // whether it is
	inNamespace map[string]bool
	found       map[string]bool // names of resources that some item has
}

// names returns the lists of resources.
func (s *selection) names() []*[]string {
	return []*[]string{
		&s.lists.Included, &s.lists.Excluded, &s.lists.IncludedClusterScoped, &s.lists.ExcludedClusterScoped,
		&s.lists.IncludedNamespaced, &s.lists.ExcludedNamespaced,
	}
}

// Everything reports whether there are no filters.
func (s *selection) Everything() bool {
	return s.namespaces.Everything() && len(s.labels) == 0 && s.lists.IncludeCluster == nil &&
		!slices.ContainsFunc(s.names(), func(names *[]string) bool { return len(*names) > 0 })
}

// Match reports whether an item is selected.
func (s *selection) Match(item *manifest.Item) (bool, error) {
	if gr := groupResource(item); gr != s.resource {
		resource, snapshot := resourceOf(item)
		resources, _, err := filter.NewResources(s.lists, s.namespaces, snapshot)
		if err != nil {
			return false, err
		}
		s.resource, s.included = gr, resources.Includes(resource)
		for _, names := range s.names() {
			for _, name := range *names {
				if _, ok := snapshot.Resolve(name); ok {
					s.found[name] = true
				}
			}
		}
	}
	if !s.included {
		return false, nil
	}
	namespace := item.Namespace
	isNamespace := s.resource == schema.GroupResource{Resource: "namespaces"}
	if isNamespace {
		namespace = item.Name
	}
	if namespace != "" {
		in, err := s.includesNamespace(namespace)
		if err != nil || !in {
			return false, err
		}
		if isNamespace && !s.namespaces.Everything() {
			return true, nil
		}
	}
	return len(s.labels) == 0 ||
		slices.ContainsFunc(s.labels, func(l labels.Selector) bool { return l.Matches(labels.Set(item.Labels)) }), nil
}

func (s *selection) includesNamespace(name string) (bool, error) {
	in, known := s.inNamespace[name]
	if !known {
		namespaces, err := filter.NewNamespaces(s.flags.includedNamespaces, s.flags.excludedNamespaces, []string{name})
		if err != nil {
			return false, err
		}
		in = namespaces.Match(name)
		s.inNamespace[name] = in
	}
	return in, nil
}

// Unknown returns a sentence for each resource that the filters name and no item has. All items must have been passed
// to Match.
func (s *selection) Unknown() []string {
	var sentences []string
	for _, names := range s.names() {
		for _, name := range *names {
			if name != "*" && !filter.IsGlob(name) && !s.found[name] {
				sentences = append(sentences, fmt.Sprintf("the backup has no items of the resource %s", name))
			}
		}
	}
	slices.Sort(sentences)
	return slices.Compact(sentences)
}
