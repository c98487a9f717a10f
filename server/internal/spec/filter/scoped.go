package filter

import "slices"

// ScopedLists are the four lists of the scoped family of resource filters.
type ScopedLists struct {
	IncludedClusterScoped, ExcludedClusterScoped []string
	IncludedNamespaced, ExcludedNamespaced       []string
}

func (l ScopedLists) empty() bool {
	return len(l.IncludedClusterScoped)+len(l.ExcludedClusterScoped)+len(l.IncludedNamespaced)+
		len(l.ExcludedNamespaced) == 0
}

// under adds includes and excludes of lower priority to names. It adds patterns that names neither includes nor
// excludes, so it adds nothing if names includes "*". Among the names of lower priority, excludes take precedence.
func under(names Names, includes, excludes []string) (Names, error) {
	undecided := func(more []string) []string {
		return slices.DeleteFunc(more, func(name string) bool { return names.Included(name) || names.Excluded(name) })
	}
	names, err := NewNames(names.Includes(), slices.Concat(names.Excludes(), undecided(excludes)))
	if err != nil {
		return Names{}, err
	}
	return NewNames(slices.Concat(names.Includes(), undecided(includes)), names.Excludes())
}
