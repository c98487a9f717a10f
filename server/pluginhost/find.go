package pluginhost

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/versioning"
)

// Find is the entry at which a name of a kind, whatever the version, is used. The error says what is in the way: the
// name is not known, or of another kind, or left out with a reason.
func (h *Host) Find(kind, name string) (Entry, error) {
	r, err := h.history.now().catalog.find(kind, kind, name)
	if err != nil {
		return Entry{}, err
	}
	r.Process = r.source.state()
	return r.Entry, nil
}

// Find is that of the host as it was when the session began.
func (s *Session) Find(kind, name string) (Entry, error) {
	r, err := s.plugins.catalog.find(kind, kind, name)
	return r.Entry, err
}

// findOffer is Find for those who call the plugin.
func findOffer[H any](c *catalog, kind versioning.Kind[H], what, name string) (offer[H], error) {
	r, err := c.find(kind.Name, what, name)
	if err != nil {
		return offer[H]{}, err
	}
	version, ok := kind.Version(r.Kind)
	if !ok {
		return offer[H]{}, fmt.Errorf("%s %q is of version %d, which cannot be called", what, r.Name, r.Version)
	}
	return offer[H]{name: r.Name, version: version, source: r.source}, nil
}

// find is the row of a name of a kind that is used; errors call the kind what.
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
		message = fmt.Sprintf("%q is no %s but a plugin of the kind %s", name, what, strings.Join(others, " and "))
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
