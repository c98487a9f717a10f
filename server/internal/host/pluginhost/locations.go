package pluginhost

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
)

// Provider is the part that the hubs of kinds have whose processes serve one location each.
type Provider interface {
	Init(ctx context.Context, config map[string]string) error
}

// Open returns the plugin of a location, in a process of its own that is initialised with config: bucket, prefix and
// the keys of the provider. location is any key that is unique to the location. The plugin stays the same while
// provider, config and the plugin's file stay the same; if its process serves one run only, within the run that ForRun
// has set. Otherwise a new process is started; callers can continue to use the old plugin, and its process ends after
// the last of them.
//
// The error for an unknown provider lists the known ones. If Init fails, the error is the error of the plugin.
func Open[H Provider](
	ctx context.Context, h *Host, kind versioning.Kind[H], location, provider string, config map[string]string,
) (H, error) {
	var none H
	provider = canonical(provider)
	o, err := open(ctx, h, kind, location, provider, config)
	if err != nil {
		return none, err
	}
	if o.supervisor != nil {
		if err := o.supervisor.Ready(ctx, provider); err != nil {
			return none, versioning.NewPlugin(kind.Name, provider).Wrap(err)
		}
	}
	plugin, _ := o.plugin.(H)
	return plugin, nil
}

// open is Open without the start of the process.
func open[H Provider](
	ctx context.Context, h *Host, kind versioning.Kind[H], location, provider string, config map[string]string,
) (opened, error) {
	l := h.locations.get(kind.Name, location)
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
	case <-ctx.Done():
		return opened{}, fmt.Errorf("open the %s of %s: %w", kind.Provider, location, context.Cause(ctx))
	}
	chosen, err := choose(h, kind, kind.Provider, provider)
	if err != nil {
		h.locations.close(l)
		return opened{}, err
	}
	run, last := "", l.opened
	o := last
	if chosen.source.offer.PerRun {
		run = calls.CallerOf(ctx).Run
		o = h.locations.ofRun(l, run) // none if there is no run
	}
	if _, known := o.plugin.(H); !known || o.provider != provider || o.source != chosen.source ||
		!maps.Equal(o.config, config) {
		h.locations.close(l)
		if o, err = openFor(ctx, h, chosen, config, last); err != nil {
			return opened{}, err
		}
		h.locations.set(l, o)
	}
	if run != "" {
		h.locations.setRun(l, run, o)
		h.logs.attach(run, o.supervisor)
	}
	return o, nil
}

// Release drops a location of a kind, e.g. after it was deleted. Its process ends when nothing uses it any more.
func (h *Host) Release(kind, location string) {
	l := h.locations.remove(kind, location)
	if l == nil {
		return
	}
	l.busy <- struct{}{}
	defer func() { <-l.busy }()
	h.locations.close(l)
}

// locations holds the plugins of all locations.
type locations struct {
	mu    sync.Mutex
	byKey map[locationKey]*location
}

type locationKey struct{ kind, name string }

// location is a location in use.
type location struct {
	busy   chan struct{}     // holds one token while the plugin is opened
	opened                   // the last one; changed by the holder of the token, with the mutex of locations
	byRun  map[string]opened // processes that serve one run; guarded by the mutex of locations
}

// opened is a plugin that was opened for a location; zero if there is none.
type opened struct {
	provider   string
	config     map[string]string
	source     *source
	plugin     any                 // a hub
	supervisor *process.Supervisor // nil for a built-in in process
	pinned     bool                // it stays while the location is open
}

// openFor opens the plugin of a location. last is what was opened for it before.
func openFor[H Provider](
	ctx context.Context, h *Host, chosen choice[H], config map[string]string, last opened,
) (opened, error) {
	name, config := chosen.name, maps.Clone(config)
	o := opened{provider: name, config: config, source: chosen.source}
	bind := func(conn grpc.ClientConnInterface) H { return chosen.version.Bind(conn, name) }
	h.inputs.Add(config)
	if chosen.source.supervisor == nil {
		conn := &renewed{inputs: h.inputs, turn: make(chan struct{}, 1),
			make: func(ctx context.Context) (grpc.ClientConnInterface, error) {
				services, err := h.builtIns.instantiate(h.log)
				if err != nil {
					return nil, err
				}
				made := h.builtIns.bound(services, name)
				return made, bind(made).Init(ctx, config)
			}}
		o.plugin = bind(initialisedConn{conn, h.table})
		_, err := conn.current(ctx)
		return o, err
	}
	launch := *chosen.source.launch
	launch.Plugin, launch.Own = name, chosen.source.offer.PerRun
	launch.OnStart = func(ctx context.Context, conn grpc.ClientConnInterface) error { return bind(conn).Init(ctx, config) }
	if launch.Own && last.source == chosen.source {
		o.supervisor = last.supervisor.Another(&launch)
	} else {
		o.supervisor = h.pool.Supervise(&launch)
	}
	if o.pinned = !launch.Own; o.pinned {
		o.supervisor.Pin()
	}
	o.plugin = bind(initialisedConn{o.supervisor.Conn(name, nil), h.table})
	return o, nil
}

// initialisedConn is a connection to a process that the host has initialised, and initialises again after a restart.
type initialisedConn struct {
	grpc.ClientConnInterface
	table *calls.Table
}

// Invoke implements grpc.ClientConnInterface.
func (c initialisedConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if c.table.Call(method).Init {
		return status.Error(codes.FailedPrecondition, "it is initialised already, open it with another configuration instead")
	}
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// get returns a location, and adds it if there is none.
func (s *locations) get(kind, name string) *location {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := locationKey{kind, name}
	l, known := s.byKey[key]
	if !known {
		l = &location{busy: make(chan struct{}, 1), byRun: map[string]opened{}}
		s.byKey[key] = l
	}
	return l
}

func (s *locations) remove(kind, name string) *location {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := locationKey{kind, name}
	l := s.byKey[key]
	delete(s.byKey, key)
	return l
}

// set notes what was opened. The caller holds busy.
func (s *locations) set(l *location, o opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.opened = o
}

// ofRun returns what was opened for a run, zero if nothing was. It forgets the runs whose processes have ended.
func (s *locations) ofRun(l *location, run string) opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(l.byRun, func(of string, o opened) bool { return of != run && !o.supervisor.Busy() })
	return l.byRun[run]
}

func (s *locations) setRun(l *location, run string, o opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.byRun[run] = o
}

// processesOf returns the processes that serve a run.
func (s *locations) processesOf(run string) (all []*process.Supervisor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.byKey {
		if o, ok := l.byRun[run]; ok {
			all = append(all, o.supervisor)
		}
	}
	return all
}

// close lets the process of a location end when it is idle. The caller holds busy.
func (s *locations) close(l *location) {
	if l.pinned {
		l.supervisor.Unpin()
	}
	s.set(l, opened{})
}

// of returns the locations that an entry serves, sorted by name.
func (s *locations) of(e *Entry, kind string) []Location {
	s.mu.Lock()
	defer s.mu.Unlock()
	var served []Location
	for key, l := range s.byKey {
		if key.kind != kind || l.plugin == nil || l.provider != e.Name || l.source.command != e.Command {
			continue
		}
		location := Location{Name: key.name}
		if l.supervisor != nil {
			location.Process = l.supervisor.State()
		}
		served = append(served, location)
	}
	slices.SortFunc(served, func(a, b Location) int { return strings.Compare(a.Name, b.Name) })
	return served
}
