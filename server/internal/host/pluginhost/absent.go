package pluginhost

import (
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
)

// WarnOfAbsent puts in the session's log which plugins of the given kinds may be missing because they or their files
// are quarantined, and why. It returns these texts, without what plugins wrote to stderr.
func (s *Session) WarnOfAbsent(kinds ...string) []string {
	var absent []string
	for _, r := range s.plugins.catalog.rows {
		switch {
		case r.Quarantined == "":
		case r.Name == "":
			absent = append(absent, fmt.Sprintf("the plugins of %s are not in force, because it is quarantined: %s", r.Command,
				calls.WithoutStderr(r.source.err)))
		case slices.Contains(kinds, r.kind) && !s.plugins.catalog.uses(r.kind, r.Name):
			absent = append(absent, fmt.Sprintf("%s %s of %s is not in force, because it is quarantined: %s", r.kind, r.Name,
				r.Command, r.Quarantined))
		}
	}
	for _, text := range absent {
		s.log.Warn(text)
	}
	return absent
}

// uses reports whether a plugin is used, at any version.
func (c *catalog) uses(kind, name string) bool {
	return slices.ContainsFunc(c.rows, func(r row) bool { return r.Used && r.kind == kind && r.Name == name })
}
