package pluginhost

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/versioning"
)

// Entry is a plugin as it is shown: one name of one kind of one binary, or a file that has none.
type Entry struct {
	// Name is "domain/name"; empty for a file that could not be asked.
	Name string
	// Kind is the kind's name on the wire, version included: "BackupItemActionV2".
	Kind string
	// Version of the kind; 0 when the server does not know the kind.
	Version int
	// Command is the path of the binary.
	Command string
	// BuiltIn tells that the plugin is part of the server.
	BuiltIn bool
	// Quarantined is the reason why the entry is not used; empty when nothing is wrong with it.
	Quarantined string
	// Note says what else is worth knowing, e.g. that the server does not know the kind; usually empty.
	Note string
}

// Usable tells whether the server can call the plugin.
func (e Entry) Usable() bool { return e.Quarantined == "" && e.Version > 0 }

// list is what a source answered when it was asked for its plugins.
type list struct {
	plugins []versioning.Listed
	err     error
}

// listAll asks all sources at once, a few at a time; one that hangs does not hold up the others.
func (h *Host) listAll(ctx context.Context) []list {
	lists := make([]list, len(h.sources))
	places := make(chan struct{}, 2+2*runtime.GOMAXPROCS(0))
	var asked sync.WaitGroup
	for i, from := range h.sources {
		places <- struct{}{}
		asked.Go(func() {
			defer func() { <-places }()
			lists[i].plugins, lists[i].err = h.listOf(ctx, from)
		})
	}
	asked.Wait()
	return lists
}

func (h *Host) listOf(ctx context.Context, from *source) ([]versioning.Listed, error) {
	if from.broken != nil {
		return nil, from.broken
	}
	if from.supervisor == nil {
		services, err := h.builtInServices(h.log)
		if err != nil {
			return nil, err
		}
		return versioning.List(ctx, services)
	}
	if err := from.supervisor.ready(ctx, ""); err != nil {
		return nil, err
	}
	return versioning.List(ctx, &conn{supervisor: from.supervisor})
}

// builtInServices makes the built-ins callable in process; they log to log.
func (h *Host) builtInServices(log hclog.Logger) (*inProcess, error) {
	services := newInProcess()
	if err := framework.RegisterAll(services, log, h.builtIns...); err != nil {
		return nil, err
	}
	return services, nil
}

// catalog is what all sources offer, in order. It does not change once New has filled it.
type catalog struct {
	known   []versioning.WireKind
	entries []Entry
	usable  []versioning.Listed // the usable entries
	sources []*source           // of usable, index by index
	taken   map[versioning.Listed]string
}

// add takes the list of a source. Of two binaries that offer the same name of the same kind the first keeps it.
func (c *catalog) add(from *source, l list) {
	if c.taken == nil {
		c.taken = map[versioning.Listed]string{}
	}
	if l.err != nil {
		c.entries = append(c.entries, Entry{Command: from.command, BuiltIn: from.builtIn, Quarantined: l.err.Error()})
		return
	}
	if len(l.plugins) == 0 {
		c.entries = append(c.entries, Entry{Command: from.command, BuiltIn: from.builtIn, Note: "it lists no plugins"})
	}
	for _, listed := range l.plugins {
		entry := Entry{Name: listed.Name, Kind: listed.Kind, Command: from.command, BuiltIn: from.builtIn}
		known, ok := versioning.Lookup(c.known, listed.Kind)
		first, duplicate := c.taken[listed]
		switch err := framework.ValidateName(listed.Name); {
		case err != nil:
			entry.Quarantined = err.Error()
		case duplicate:
			entry.Quarantined = fmt.Sprintf("%s %s is offered twice: by %s, which is used, and by %s", listed.Kind, listed.Name, first, from.command)
		case !ok:
			entry.Note = fmt.Sprintf("this server does not know the kind %q", listed.Kind)
		case known.Deprecated != "":
			entry.Note = known.Deprecated
		}
		if ok && entry.Quarantined == "" {
			entry.Version = known.Number
			c.taken[listed] = from.command
			c.usable = append(c.usable, listed)
			c.sources = append(c.sources, from)
		}
		c.entries = append(c.entries, entry)
	}
}

// log tells the operator what was found.
func (c *catalog) log(log hclog.Logger) {
	for _, e := range c.entries {
		log := log.With("cmd", e.Command, "kind", e.Kind, "plugin", e.Name)
		switch {
		case e.Quarantined != "":
			log.Error("plugin is quarantined", "reason", e.Quarantined)
		case e.Note != "":
			log.Warn("plugin found", "note", e.Note)
		default:
			log.Info("plugin found", "version", e.Version)
		}
	}
}

// offer is a name of a kind, bound to where it comes from.
type offer[H any] struct {
	versioning.Choice[H]
	source *source
}

// offers are the names of a kind, each once and at its newest version, in the order of registration.
func offers[H any](c *catalog, kind versioning.Kind[H]) []offer[H] {
	var all []offer[H]
	for _, choice := range kind.Choose(c.usable) {
		all = append(all, offer[H]{Choice: choice, source: c.sources[choice.Index]})
	}
	return all
}
