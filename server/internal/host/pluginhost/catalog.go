package pluginhost

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/versioning"
)

// catalog lists the plugins that the sources offer, in the order in which they run. It does not change.
type catalog struct {
	known    []versioning.WireKind
	atOnce   map[string]int    // Config.Concurrency
	disabled func(string) bool // Config.Disabled
	rows     []row
	used     map[string][]int // positions of the used plugins in rows, by name
}

// row is an entry with its source.
type row struct {
	Entry
	kind   string // whatever the version
	late   bool   // the kind runs after all others
	adapts bool   // an implementation of another kind with the same name is used instead
	source *source
}

// newCatalog lists the plugins of the sources, all of which have answered. If two sources offer the same name of the
// same kind at the same version, the first one is used.
func newCatalog(
	known []versioning.WireKind, atOnce map[string]int, disabled func(string) bool, o order, sources []*source,
) *catalog {
	c := &catalog{known: known, atOnce: atOnce, disabled: disabled}
	taken := map[versioning.Listed]string{}
	for _, from := range sources {
		c.add(from, taken)
	}
	positions := c.negotiate()
	for to, from := range c.sorted(order{}, positions) {
		c.rows[from].Stock = to + 1
	}
	rows := make([]row, len(c.rows))
	for to, from := range c.sorted(o, positions) {
		rows[to] = c.rows[from]
	}
	c.rows, c.used = rows, map[string][]int{}
	for at, r := range rows {
		if r.Used {
			c.used[r.Name] = append(c.used[r.Name], at)
		}
	}
	return c
}

// sorted returns the indices of the rows in the order in which they run.
func (c *catalog) sorted(o order, positions []int) []int {
	indices := make([]int, len(c.rows))
	for i := range indices {
		indices[i] = i
	}
	slices.SortStableFunc(indices, func(a, b int) int { return c.compare(o, positions, a, b) })
	return indices
}

// add adds what one source offers.
func (c *catalog) add(from *source, taken map[versioning.Listed]string) {
	common := Entry{
		Command: from.command, BuiltIn: from.builtIn,
		PluginVersion: from.offer.PluginVersion, FrameworkVersion: from.offer.FrameworkVersion,
	}
	switch {
	case from.err != nil:
		common.Quarantined = from.err.Error()
		errors.As(from.err, &common.Refused)
		c.rows = append(c.rows, row{Entry: common, source: from})
		return
	case len(from.offer.Plugins) == 0:
		common.Note = "it lists no plugins"
		c.rows = append(c.rows, row{Entry: common, source: from})
		return
	}
	replaced := c.replaced(from)
	for _, offered := range from.offer.Plugins {
		if from.builtIn && c.disabled(offered.Name) {
			continue
		}
		r := row{Entry: common, source: from}
		r.Name, r.Kind, r.ConfigSchema, r.Objects = offered.Name, offered.Kind, offered.ConfigSchema, offered.Objects
		r.OperationTimeout, r.StallTimeout = offered.OperationTimeout, offered.StallTimeout
		r.kind, _ = hostapi.SplitWireKind(offered.Kind)
		if r.Roles = offered.Roles; !from.offer.Informed {
			r.Roles = rolesOfVelero(r.kind, offered.Name)
		}
		if r.Concurrency = c.atOnce[offered.Name]; r.Concurrency == 0 && from.offer.Informed {
			r.Concurrency = max(4, 2*runtime.GOMAXPROCS(0))
		}
		r.late = slices.ContainsFunc(c.known, func(v versioning.WireKind) bool { return v.Kind == r.kind && v.Late })
		r.adapts = c.knows(offered.AdapterOf) &&
			slices.ContainsFunc(from.offer.Plugins, func(other versioning.Described) bool {
				kind, _ := hostapi.SplitWireKind(other.Kind)
				return kind == offered.AdapterOf && other.Name == offered.Name
			})
		if r.adapts {
			r.Note = fmt.Sprintf("an adapter of the %s of that name, for hosts that do not know that kind", offered.AdapterOf)
		}
		first, duplicate := taken[offered.Listed]
		switch err := hostapi.ValidateName(offered.Name); {
		case err != nil:
			r.Quarantined = err.Error()
		case slices.Contains(from.unserved, offered.Kind):
			r.Quarantined = fmt.Sprintf("%s is announced but not served", offered.Kind)
		case duplicate:
			r.Quarantined = fmt.Sprintf("%s %s is offered twice: by %s, which is used, and by %s", offered.Kind, offered.Name,
				first, from.command)
		case replaced != "":
			r.Quarantined = replaced
		default:
			taken[offered.Listed] = from.command
		}
		c.rows = append(c.rows, r)
	}
}

// replaced returns why nothing of a program is used: most of it is built in, so the rest of it would do its part of the
// work of the built-ins once more. It returns "" for other programs.
func (c *catalog) replaced(from *source) string {
	builtIn := 0
	for _, offered := range from.offer.Plugins {
		kind, _ := hostapi.SplitWireKind(offered.Kind)
		if slices.ContainsFunc(c.rows, func(r row) bool { return r.BuiltIn && r.kind == kind && r.Name == offered.Name }) {
			builtIn++
		}
	}
	if from.builtIn || 2*builtIn <= len(from.offer.Plugins) {
		return ""
	}
	return fmt.Sprintf("built-in plugins replace the whole program, since they have %d of its %d; remove %s, or name the "+
		"built-ins in plugins.disabledBuiltIns", builtIn, len(from.offer.Plugins), from.command)
}

// knows reports whether the host knows any version of a kind.
func (c *catalog) knows(kind string) bool {
	return slices.ContainsFunc(c.known, func(v versioning.WireKind) bool { return v.Kind == kind })
}

// negotiate decides which rows are used. It returns each row's position in the order of registration. All versions of a
// name have the position at which the name was first listed.
func (c *catalog) negotiate() []int {
	var listed []versioning.Listed
	var at []int
	positions := make([]int, len(c.rows))
	first := map[versioning.Listed]int{}
	quarantined := map[versioning.Listed][]string{} // quarantined kinds of each name
	for i, r := range c.rows {
		positions[i] = i
		name := versioning.Listed{Kind: r.kind, Name: r.Name}
		if r.Quarantined != "" {
			quarantined[name] = append(quarantined[name], r.Kind)
			continue
		}
		if r.Name == "" || r.adapts {
			continue
		}
		if _, seen := first[name]; !seen {
			first[name] = i
		}
		positions[i] = first[name]
		listed = append(listed, versioning.Listed{Kind: r.Kind, Name: r.Name})
		at = append(at, i)
	}
	for i, outcome := range versioning.Negotiate(c.known, listed) {
		r := &c.rows[at[i]]
		r.Version, r.Used, r.Choice = outcome.Version.Number, outcome.Used, outcome.Choice
		if !r.Used {
			continue
		}
		notes := []string{}
		if outcome.Version.Deprecated != "" {
			notes = append(notes, outcome.Version.Deprecated)
		}
		for _, wire := range quarantined[versioning.Listed{Kind: r.kind, Name: r.Name}] {
			if wire != r.Kind {
				notes = append(notes, wire+" of the same name is quarantined")
			}
		}
		r.Note = strings.Join(notes, "; ")
	}
	return positions
}

// compare orders two rows: by the configured order, then by name for late kinds and by registration for others. Late
// kinds come last.
func (c *catalog) compare(o order, positions []int, a, b int) int {
	x, y := c.rows[a], c.rows[b]
	switch {
	case x.late != y.late && x.late:
		return 1
	case x.late != y.late:
		return -1
	}
	byOrder := cmp.Compare(o.of(x.Name), o.of(y.Name))
	if byOrder == 0 && x.late {
		byOrder = strings.Compare(x.Name, y.Name)
	}
	return cmp.Or(byOrder, cmp.Compare(positions[a], positions[b]))
}

func (r row) logTo(log hclog.Logger) {
	log = log.With("cmd", r.Command, "kind", r.Kind, "plugin", r.Name)
	if r.PluginVersion != "" {
		log = log.With("pluginVersion", r.PluginVersion)
	}
	switch {
	case r.Quarantined != "":
		log.Error("plugin is quarantined", "reason", r.Quarantined)
	case r.Version == 0:
		log.Warn("plugin is left out", "reason", strings.TrimPrefix(r.Choice+r.Note, " "))
	case !r.Used:
		log.Info("plugin found", "version", r.Version, "used", false, "choice", r.Choice)
	case r.Note != "":
		log.Info("plugin found", "version", r.Version, "used", true, "choice", r.Choice, "note", r.Note)
	default:
		log.Info("plugin found", "version", r.Version, "used", true, "choice", r.Choice)
	}
}
