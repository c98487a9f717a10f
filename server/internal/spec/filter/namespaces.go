package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Namespaces is a namespace filter, applied to the namespaces that exist: in the cluster for a backup, in the archive
// for a restore.
type Namespaces struct {
	names     Names
	nothing   bool // set if no include is left after globs were expanded
	missing   []string
	unmatched []string
	existing  []string
	without   []string
}

// NewNamespaces returns a filter. It expands globs to the existing namespaces that they match, unless the includes are
// empty or contain "*"; then excluded globs are matched as they are. Includes that expand to nothing include nothing.
// Patterns must pass CheckNamespacePattern.
func NewNamespaces(includes, excludes, existing []string) (Namespaces, error) {
	for _, list := range [][]string{includes, excludes} {
		for _, pattern := range list {
			if err := CheckNamespacePattern(pattern); err != nil {
				return Namespaces{}, err
			}
		}
	}
	ns := Namespaces{existing: slices.Clone(existing)}
	var err error
	for _, name := range ns.Absent(includes) {
		if IsGlob(name) {
			ns.unmatched = append(ns.unmatched, "includedNamespaces: "+name)
		}
	}
	for _, name := range ns.Absent(excludes) {
		ns.unmatched = append(ns.unmatched, "excludedNamespaces: "+name)
	}
	if len(includes) > 0 && !slices.Contains(includes, "*") {
		ns.missing = missing(includes, existing)
		if slices.ContainsFunc(includes, IsGlob) || slices.ContainsFunc(excludes, IsGlob) {
			if includes, err = expand(includes, existing); err != nil {
				return Namespaces{}, err
			}
			if excludes, err = expand(excludes, existing); err != nil {
				return Namespaces{}, err
			}
			ns.nothing = len(includes) == 0
		}
	}
	ns.names, err = NewNames(includes, excludes)
	return ns, err
}

// Match reports whether the namespace is included. It has no meaning for cluster-scoped objects, whose namespace is
// empty; use Everything for them.
func (n Namespaces) Match(name string) bool {
	return !n.nothing && n.names.Match(name) && !slices.Contains(n.without, name)
}

// Without returns a filter that excludes the given namespaces too, such as those with an exclude label. It does not
// change the result of Everything.
func (n Namespaces) Without(names ...string) Namespaces {
	n.without = slices.Concat(n.without, names)
	return n
}

// Everything reports whether every namespace is included, even one that does not exist yet.
func (n Namespaces) Everything() bool { return !n.nothing && n.names.Everything() }

// All reports whether every namespace is included that is not explicitly excluded.
func (n Namespaces) All() bool {
	return !n.nothing && (len(n.names.Includes()) == 0 || n.names.includes.all)
}

// Missing returns the included names, other than globs, of namespaces that do not exist.
func (n Namespaces) Missing() []string { return n.missing }

// Unmatched returns the patterns of the includes, and the names and patterns of the excludes, that match no existing
// namespace, in the form "includedNamespaces: team-*".
func (n Namespaces) Unmatched() []string { return n.unmatched }

// Absent returns the names and patterns that match no existing namespace.
func (n Namespaces) Absent(names []string) []string { return Absent(names, n.existing) }

// Existing returns the number of namespaces that exist, included or not.
func (n Namespaces) Existing() int { return len(n.existing) }

// List returns the existing namespaces that the filter includes, in the order in which NewNamespaces got them.
func (n Namespaces) List() []string {
	var list []string
	for _, name := range n.existing {
		if n.Match(name) {
			list = append(list, name)
		}
	}
	return list
}

// CheckNamespacePattern returns an error if a namespace name or pattern is not valid. Patterns consist of "*", "?" and
// "[abc]"; braces, negation, alternatives and "**" are not supported.
func CheckNamespacePattern(pattern string) error {
	var problem error
	switch {
	case strings.ContainsAny(pattern, "|()!{},"):
		problem = errors.New(`must not contain any of | ( ) ! { } ,`)
	case strings.Contains(pattern, "**"):
		problem = errors.New(`must not contain "**"`)
	default:
		problem = checkBrackets(pattern)
	}
	if problem != nil {
		return fmt.Errorf("namespace pattern %q: %w; use *, ? and [abc]", pattern, problem)
	}
	return nil
}

func checkBrackets(pattern string) error {
	for rest := pattern; ; {
		open, stray := strings.IndexByte(rest, '['), strings.IndexByte(rest, ']')
		if open < 0 && stray < 0 {
			return nil
		}
		if open < 0 || stray >= 0 && stray < open {
			return errors.New(`has a "]" without a "["`)
		}
		length := strings.IndexByte(rest[open:], ']')
		switch {
		case length < 0:
			return errors.New(`has a "[" without a "]"`)
		case length == 1:
			return errors.New(`has an empty "[]"`)
		}
		rest = rest[open+length+1:]
	}
}

// Absent returns the names and patterns that match none of the existing names. It leaves out "*".
func Absent(names, existing []string) []string {
	var absent []string
	for _, name := range names {
		// A pattern that cannot be compiled is an error elsewhere.
		if one, err := newList([]string{name}); err == nil && name != "" && !one.all &&
			!slices.ContainsFunc(existing, one.match) {
			absent = append(absent, name)
		}
	}
	return absent
}

func missing(includes, existing []string) []string {
	var absent []string
	for _, name := range includes {
		if name != "" && !IsGlob(name) && !slices.Contains(existing, name) && !slices.Contains(absent, name) {
			absent = append(absent, name)
		}
	}
	return absent
}

// expand replaces each glob with the existing names that it matches.
func expand(patterns, existing []string) ([]string, error) {
	var names []string
	for _, pattern := range patterns {
		if !IsGlob(pattern) {
			names = append(names, pattern)
			continue
		}
		one, err := newList([]string{pattern})
		if err != nil {
			return nil, fmt.Errorf("namespace %w", err)
		}
		for _, name := range existing {
			if one.match(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
