package pluginhost

import (
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/versioning"
)

// generation is the content of the plugin directory at one time, with the built-in plugins. It does not change: added,
// replaced or removed files make the next generation, which shares the sources of the unchanged files. A run keeps its
// generation, so it never uses two versions of a plugin.
type generation struct {
	sources []*source // built-ins, then binaries in the order of the directory
	catalog *catalog
	users   int // sessions, and the history while it is the current one; guarded by the history
}

// history holds the current generation, and those before it for as long as they are used.
type history struct {
	log      hclog.Logger
	kinds    []versioning.WireKind
	atOnce   map[string]int    // Config.Concurrency
	disabled func(string) bool // Config.Disabled
	order    order
	changed  func()                     // called after each new generation
	warned   map[versioning.Listed]bool // plugins whose deprecated version was logged

	mu      sync.Mutex
	current *generation
}

// now returns the current generation, to be used at once.
func (h *history) now() *generation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// hold returns the current generation and keeps the processes of its plugins until leave.
func (h *history) hold() *generation {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current.users++
	return h.current
}

// leave ends hold. Processes whose files are not the current ones are stopped when nothing else holds them.
func (h *history) leave(g *generation) {
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

// publish makes sources, which have been asked, the current generation. It is not called concurrently.
func (h *history) publish(sources []*source) {
	next := &generation{sources: sources, catalog: newCatalog(h.kinds, h.atOnce, h.disabled, h.order, sources), users: 1}
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

// logChanges logs the rows that are new or different since last, and those that were removed.
func (c *catalog) logChanges(log hclog.Logger, last *catalog) {
	type state struct {
		source                                *source
		kind, name, choice, quarantined, note string
	}
	type key struct{ command, kind, name string }
	before, now := map[state]bool{}, map[key]bool{}
	stateOf := func(r row) state { return state{r.source, r.Kind, r.Name, r.Choice, r.Quarantined, r.Note} }
	for _, r := range last.rows {
		before[stateOf(r)] = true
	}
	for _, r := range c.rows {
		now[key{r.Command, r.Kind, r.Name}] = true
		if !before[stateOf(r)] {
			r.logTo(log)
		}
	}
	for _, r := range last.rows {
		if !now[key{r.Command, r.Kind, r.Name}] && !r.source.missing {
			log.Info("plugin was removed", "cmd", r.Command, "kind", r.Kind, "plugin", r.Name)
		}
	}
}

// warnOfDeprecated logs each plugin that is used at a version that is going to be removed, once.
func (h *history) warnOfDeprecated(c *catalog) {
	for _, r := range c.rows {
		version, known := versioning.Lookup(h.kinds, r.Kind)
		plugin := versioning.Listed{Kind: r.Kind, Name: r.Name}
		if !r.Used || !known || version.Deprecated == "" || h.warned[plugin] {
			continue
		}
		h.warned[plugin] = true
		h.log.Warn("plugin uses a version of its kind that is going to be removed", "cmd", r.Command, "kind", r.Kind,
			"plugin", r.Name, "version", r.Version, "instead", version.Deprecated)
	}
}
