package pluginhost

import (
	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/versioning"
)

// generation is what the plugin directory held at one time, with what the plugins of the server itself offer. It does not
// change: what is added, replaced or removed makes the next generation, which has the sources of what stayed the same
// from this one. An operation keeps the generation that it began with, so it never sees two versions of a plugin.
type generation struct {
	sources []*source // built-ins, then binaries in the order of the directory
	catalog *catalog
	users   int // sessions, and the host for as long as it is the current one; guarded by the host's mu
}

// now is the current generation, for a question that is answered at once.
func (h *Host) now() *generation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// hold gives the current generation and keeps the processes of its plugins until leave.
func (h *Host) hold() *generation {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current.users++
	return h.current
}

// leave ends hold. Processes whose files are not the current ones are stopped when nobody else holds them.
func (h *Host) leave(g *generation) {
	h.mu.Lock()
	var unused []*source
	g.users--
	if g.users == 0 {
		for _, from := range g.sources {
			from.holders--
			if from.holders == 0 {
				unused = append(unused, from)
			}
		}
	}
	h.mu.Unlock()
	for _, from := range unused {
		from.retire()
	}
}

// publish makes sources, which have been asked, the current generation. Calls come one after the other.
func (h *Host) publish(sources []*source) {
	next := &generation{sources: sources, catalog: newCatalog(h.kinds, h.order, sources), users: 1}
	h.mu.Lock()
	last := h.current
	h.current = next
	for _, from := range sources {
		from.holders++
	}
	h.mu.Unlock()
	next.catalog.logChanges(h.log, last.catalog)
	h.warnOfDeprecated(next.catalog)
	h.leave(last)
	h.changed()
}

// logChanges tells the operator what is there now and was not, or not in this way, in last, and what is gone.
func (c *catalog) logChanges(log hclog.Logger, last *catalog) {
	type state struct {
		source                                *source
		kind, name, choice, quarantined, note string
	}
	type place struct{ command, kind, name string }
	before, now := map[state]bool{}, map[place]bool{}
	of := func(r row) state { return state{r.source, r.Kind, r.Name, r.Choice, r.Quarantined, r.Note} }
	for _, r := range last.rows {
		before[of(r)] = true
	}
	for _, r := range c.rows {
		now[place{r.Command, r.Kind, r.Name}] = true
		if !before[of(r)] {
			r.logTo(log)
		}
	}
	for _, r := range last.rows {
		if !now[place{r.Command, r.Kind, r.Name}] && !r.source.missing {
			log.Info("plugin is gone", "cmd", r.Command, "kind", r.Kind, "plugin", r.Name)
		}
	}
}

// warnOfDeprecated tells of every plugin that is used at a version that is going to be removed, once.
func (h *Host) warnOfDeprecated(c *catalog) {
	for _, r := range c.rows {
		version, known := versioning.Lookup(h.kinds, r.Kind)
		told := versioning.Listed{Kind: r.Kind, Name: r.Name}
		if !r.Used || !known || version.Deprecated == "" || h.warned[told] {
			continue
		}
		h.warned[told] = true
		h.log.Warn("plugin uses a version of its kind that is going to be removed", "cmd", r.Command, "kind", r.Kind,
			"plugin", r.Name, "version", r.Version, "instead", version.Deprecated)
	}
}
