package pluginhost

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
)

// Plugins is a view of the plugins in use. A Host has the current plugins, a Session the plugins that existed when it
// began.
type Plugins interface {
	catalog() *catalog
	// conn returns the connection to one plugin of a source.
	conn(from *source, plugin string) grpc.ClientConnInterface
}

// All returns the plugins of kinds that have the same hub, each name once and at the newest version that both sides
// know. They are in the order in which they run: first by Config.Order, then built-ins, then binaries in the order of
// the directory, each in the order in which it lists its plugins. Plugins of late kinds follow all others, sorted by
// name.
func All[H any](in Plugins, kinds ...versioning.Kind[H]) []H {
	var all []H
	for _, r := range in.catalog().rows {
		for _, kind := range kinds {
			if version, ok := kind.Version(r.Kind); ok && r.Used {
				all = append(all, version.Bind(in.conn(r.source, r.Name), r.Name))
			}
		}
	}
	return all
}

// Concurrency returns how many calls a run may make at once to the plugins that All returns, by their names; see
// Entry.Concurrency.
func Concurrency[H any](in Plugins, kinds ...versioning.Kind[H]) map[string]int {
	atOnce := map[string]int{}
	for _, r := range in.catalog().rows {
		for _, kind := range kinds {
			if _, ok := kind.Version(r.Kind); ok && r.Used {
				if other, known := atOnce[r.Name]; !known || r.Concurrency < other {
					atOnce[r.Name] = r.Concurrency
				}
			}
		}
	}
	return atOnce
}

// Named returns the plugin of a kind with the given name. A Host returns the current one: after its file was replaced,
// the next call returns the new plugin, so call Named again for each decision. The error is the error of Host.Find.
func Named[H any](in Plugins, kind versioning.Kind[H], name string) (H, error) {
	chosen, err := choose(in, kind, kind.Name, name)
	if err != nil {
		var none H
		return none, err
	}
	return chosen.version.Bind(in.conn(chosen.source, chosen.name), chosen.name), nil
}

// choice represents the version of a kind at which a name is used.
type choice[H any] struct {
	name    string
	version versioning.Version[H]
	source  *source
}

// choose finds what Named binds. Errors call the kind what.
func choose[H any](in Plugins, kind versioning.Kind[H], what, name string) (choice[H], error) {
	r, err := in.catalog().find(kind.Name, what, name)
	if err != nil {
		return choice[H]{}, err
	}
	version, ok := kind.Version(r.Kind)
	if !ok {
		return choice[H]{}, fmt.Errorf("%s %q is of version %d, which cannot be called", what, r.Name, r.Version)
	}
	return choice[H]{name: r.Name, version: version, source: r.source}, nil
}

func (h *Host) catalog() *catalog { return h.history.now().catalog }

// conn returns a connection for calls outside of a session. They are made on behalf of the run that ForRun has set, if
// any. A plugin whose process serves one run gets one for each run, or else for each call.
func (h *Host) conn(from *source, plugin string) grpc.ClientConnInterface {
	switch {
	case from.supervisor == nil:
		return h.builtIns.bound(h.builtIns.services, plugin)
	case from.offer.PerRun:
		return &callConn{from: from, plugin: plugin}
	}
	return from.supervisor.Conn(plugin, nil)
}

func (s *Session) catalog() *catalog { return s.plugins.catalog }

// conn returns a connection for calls of the session.
func (s *Session) conn(from *source, plugin string) grpc.ClientConnInterface {
	c := &sessionConn{session: s, plugin: plugin}
	if supervised := s.processOf(from); supervised != nil {
		c.inner = supervised.Conn(plugin, func() { s.attach(supervised) })
	} else {
		c.inner = s.host.builtIns.bound(s.builtInServices(), plugin)
	}
	return c
}
