package pluginhost

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/versioning"
)

// Find returns the used entry of a kind with the given name, at any version. If there is none, the error has the
// reason: the name is unknown, belongs to another kind, or is left out.
func (h *Host) Find(kind, name string) (Entry, error) {
	r, err := h.catalog().find(kind, kind, name)
	if err != nil {
		return Entry{}, err
	}
	return h.entry(r), nil
}

// Find is Host.Find among the plugins of the session.
func (s *Session) Find(kind, name string) (Entry, error) {
	r, err := s.plugins.catalog.find(kind, kind, name)
	return r.Entry, err
}

// find returns the used row of a kind with the given name. Errors call the kind what.
func (c *catalog) find(kind, what, name string) (row, error) {
	name = canonical(name)
	var known, others, wrong []string
	var left string
	for _, r := range c.rows {
		switch {
		case r.Used && r.kind == kind && r.Name == name:
			return r, nil
		case r.Used && r.kind == kind:
			known = append(known, r.Name)
		case r.Used && r.Name == name:
			others = append(others, r.kind)
		case r.Quarantined != "" && (r.Name == "" || r.Name == name && r.kind == kind):
			wrong = append(wrong, fmt.Sprintf("%s (%s)", r.Command, r.Quarantined))
		case r.Name == name && r.kind == kind:
			left = r.Choice
		}
	}
	var message string
	switch {
	case !slices.ContainsFunc(c.known, func(v versioning.WireKind) bool { return v.Kind == kind }):
		message = fmt.Sprintf("this server does not know the kind %q", kind)
	case left != "":
		message = fmt.Sprintf("%s %q cannot be used: %s", what, name, left)
	case len(others) > 0:
		message = fmt.Sprintf("%q is not a %s but a plugin of the kind %s", name, what, strings.Join(others, " and "))
	case len(known) > 0:
		message = fmt.Sprintf("unknown %s %q; known are: %s", what, name, strings.Join(known, ", "))
	default:
		message = fmt.Sprintf("unknown %s %q; no plugin of the kind %s was found", what, name, kind)
	}
	if len(wrong) > 0 {
		message += "; quarantined: " + strings.Join(wrong, ", ")
	}
	return row{}, fmt.Errorf("%s", message)
}
