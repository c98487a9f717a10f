package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobwas/glob"
)

// Names is a list of included and one of excluded names, both of which may hold globs. Excludes win.
// No include at all means everything, as "*" does.
//
// The zero value matches everything.
type Names struct {
	includes list
	excludes list
}

// NewNames compiles the two lists. A glob that cannot be compiled is an error that quotes it.
func NewNames(includes, excludes []string) (Names, error) {
	in, err := newList(includes)
	if err != nil {
		return Names{}, fmt.Errorf("included name: %w", err)
	}
	ex, err := newList(excludes)
	if err != nil {
		return Names{}, fmt.Errorf("excluded name: %w", err)
	}
	return Names{includes: in, excludes: ex}, nil
}

// Match says whether the name is included and not excluded.
func (n Names) Match(name string) bool {
	return !n.excludes.match(name) && (len(n.includes.names) == 0 || n.includes.match(name))
}

// Everything says whether the lists exclude nothing and include all, whatever its name.
func (n Names) Everything() bool {
	return len(n.excludes.names) == 0 && (len(n.includes.names) == 0 || n.includes.all)
}

// Included says whether an include names it, which no include at all does not.
func (n Names) Included(name string) bool { return n.includes.match(name) }

// Excluded says whether an exclude names it.
func (n Names) Excluded(name string) bool { return n.excludes.match(name) }

// Includes are the included names and globs as given.
func (n Names) Includes() []string { return n.includes.names }

// Excludes are the excluded names and globs as given.
func (n Names) Excludes() []string { return n.excludes.names }

// IsGlob says whether a name is a pattern rather than a plain name.
func IsGlob(name string) bool { return strings.ContainsAny(name, "*?[") }

// list is one list of names, exact ones apart from globs.
type list struct {
	names []string
	all   bool // holds "*"
	exact map[string]struct{}
	globs []*glob.Pattern
}

func newList(names []string) (list, error) {
	l := list{names: slices.Clone(names), exact: make(map[string]struct{}, len(names))}
	for _, name := range names {
		switch {
		case name == "*":
			l.all = true
		case strings.ContainsAny(name, `*?[{\`):
			g, err := glob.Compile(name)
			if err != nil {
				return list{}, fmt.Errorf("pattern %q: %w", name, err)
			}
			l.globs = append(l.globs, g)
		default:
			l.exact[name] = struct{}{}
		}
	}
	return l, nil
}

func (l list) match(name string) bool {
	if l.all {
		return true
	}
	if _, ok := l.exact[name]; ok {
		return true
	}
	return slices.ContainsFunc(l.globs, func(g *glob.Pattern) bool { return g.Match(name) })
}
