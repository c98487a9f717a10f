package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobwas/glob"
)

// Names matches names against a list of included and a list of excluded names. Both lists may contain globs, and
// excludes take precedence. An empty list of includes includes everything, as "*" does.
//
// The zero value matches everything.
type Names struct {
	includes list
	excludes list
}

// NewNames compiles the two lists. It returns an error that quotes the glob if one cannot be compiled.
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

// Match reports whether the name is included and not excluded.
func (n Names) Match(name string) bool {
	return !n.excludes.match(name) && (len(n.includes.names) == 0 || n.includes.match(name))
}

// Everything reports whether every name matches.
func (n Names) Everything() bool {
	return len(n.excludes.names) == 0 && (len(n.includes.names) == 0 || n.includes.all)
}

// Included reports whether an entry of the includes matches the name. It is false if there are no includes.
func (n Names) Included(name string) bool { return n.includes.match(name) }

// Excluded reports whether an entry of the excludes matches the name.
func (n Names) Excluded(name string) bool { return n.excludes.match(name) }

// Includes returns the included names and globs as passed to NewNames.
func (n Names) Includes() []string { return n.includes.names }

// Excludes returns the excluded names and globs as passed to NewNames.
func (n Names) Excludes() []string { return n.excludes.names }

// IsGlob reports whether name is a pattern.
func IsGlob(name string) bool { return strings.ContainsAny(name, "*?[") }

// list is one compiled list of names.
type list struct {
	names []string
	all   bool // contains "*"
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
