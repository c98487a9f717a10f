package filter

import "slices"

// ScopedLists are the four lists of the scoped family of resource filters.
type ScopedLists struct {
	IncludedClusterScoped, ExcludedClusterScoped []string
	IncludedNamespaced, ExcludedNamespaced       []string
}

func (l ScopedLists) empty() bool {
	return len(l.IncludedClusterScoped)+len(l.ExcludedClusterScoped)+len(l.IncludedNamespaced)+len(l.ExcludedNamespaced) == 0
}

// under adds names of lower priority to a list of includes and one of excludes: those that neither of
// them says anything about. So "*" among the includes leaves nothing to say. Of the names
// of lower priority themselves excludes win.
func under(names Names, includes, excludes []string) (Names, error) {
	unsaid := func(more []string) []string {
		return slices.DeleteFunc(more, func(name string) bool { return names.Included(name) || names.Excluded(name) })
	}
	names, err := NewNames(names.Includes(), slices.Concat(names.Excludes(), unsaid(excludes)))
	if err != nil {
		return Names{}, err
	}
	return NewNames(slices.Concat(names.Includes(), unsaid(includes)), names.Excludes())
}
