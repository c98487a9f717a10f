package manifest

import (
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
)

// FilterFlags are the filters of a backup, and a search, as flags.
type FilterFlags struct {
	filters   contents.Filters
	selectors command.LabelSelectors
}

// Add adds the flags. They have the names and the meaning that they have for a new backup.
func (f *FilterFlags) Add(flags *pflag.FlagSet) {
	lists := &f.filters.Resources
	flags.StringSliceVar(&f.filters.IncludedNamespaces, "include-namespaces", nil,
		"only items of these namespaces, names or patterns")
	flags.StringSliceVar(&f.filters.ExcludedNamespaces, "exclude-namespaces", nil, "no items of these namespaces")
	flags.StringSliceVar(&lists.Included, "include-resources", nil,
		"only items of these resources: plural, kind or short name, with or without a group")
	flags.StringSliceVar(&lists.Excluded, "exclude-resources", nil, "no items of these resources")
	flags.StringSliceVar(&lists.IncludedClusterScoped, "include-cluster-scoped-resources", nil,
		"only cluster-scoped items of these resources")
	flags.StringSliceVar(&lists.ExcludedClusterScoped, "exclude-cluster-scoped-resources", nil,
		"no cluster-scoped items of these resources")
	flags.StringSliceVar(&lists.IncludedNamespaced, "include-namespace-scoped-resources", nil,
		"only namespaced items of these resources")
	flags.StringSliceVar(&lists.ExcludedNamespaced, "exclude-namespace-scoped-resources", nil,
		"no namespaced items of these resources")
	command.AddOptionalBool(flags, &lists.IncludeCluster, "include-cluster-resources",
		"cluster-scoped items too, or not")
	flags.StringVar(&f.filters.Name, "search", "", "only items with this text in their names, in upper or lower case")
	f.selectors.Add(flags)
}

// Filters returns the filters that the flags describe.
func (f *FilterFlags) Filters() (contents.Filters, error) {
	one, alternatives, err := f.selectors.Parse()
	if err != nil {
		return contents.Filters{}, err
	}
	if one != nil {
		alternatives = []*metav1.LabelSelector{one}
	}
	f.filters.Selectors = alternatives
	return f.filters, nil
}

// Selection returns the selection that the flags describe.
func (f *FilterFlags) Selection() (*contents.Selection, error) {
	filters, err := f.Filters()
	if err != nil {
		return nil, err
	}
	return contents.NewSelection(filters)
}
