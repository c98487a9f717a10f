package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/server/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// location is an object store in use. It has a process of its own, because a plugin is initialised once per process.
type location struct {
	busy chan struct{} // holds one token while the store is opened

	provider   string
	config     map[string]string
	source     *source             // of the plugin that provides the store
	store      objectstore.Store   // nil until it was opened
	supervisor *process.Supervisor // nil for a built-in in process
}

// ObjectStore returns the store of a backup storage location, initialised with config: bucket, prefix and the keys of the
// provider. location is any key that is unique to the location. The store stays the same while provider, config and the
// plugin's file stay the same. Otherwise a new process is started; callers can go on using the old store, and its process ends
// when they no longer do.
//
// The error for an unknown provider lists the known ones. If Init fails, the error is that of the plugin.
func (h *Host) ObjectStore(ctx context.Context, location, provider string, config map[string]string) (objectstore.Store, error) {
	provider = canonical(provider)
	l := h.stores.location(location)
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
	case <-ctx.Done():
		return nil, fmt.Errorf("open object store of %s: %w", location, context.Cause(ctx))
	}
	chosen, err := choose(h, kinds.ObjectStore(), "object store provider", provider)
	if err != nil {
		l.release()
		return nil, err
	}
	if l.store == nil || l.provider != provider || l.source != chosen.source || !maps.Equal(l.config, config) {
		l.release()
		l.provider, l.config, l.source = provider, maps.Clone(config), chosen.source
		if err := h.open(ctx, l, chosen); err != nil {
			return nil, err
		}
	}
	if l.supervisor != nil {
		if err := l.supervisor.Ready(ctx, provider); err != nil {
			return nil, versioning.NewPlugin(kinds.ObjectStore().Name, provider).Wrap(err)
		}
	}
	return l.store, nil
}

// ReleaseObjectStore drops a location, e.g. after it was deleted. Its process ends when nothing uses it any more.
func (h *Host) ReleaseObjectStore(location string) {
	l := h.stores.remove(location)
	if l == nil {
		return
	}
	l.busy <- struct{}{}
	defer func() { <-l.busy }()
	l.release()
}

// stores holds the object stores in use.
type stores struct {
	mu        sync.Mutex
	locations map[string]*location
}

// location returns the location of a key, and adds it if there is none.
func (s *stores) location(key string) *location {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.locations[key]
	if !known {
		l = &location{busy: make(chan struct{}, 1)}
		s.locations[key] = l
	}
	return l
}

func (s *stores) remove(key string) *location {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locations[key]
	delete(s.locations, key)
	return l
}

// release lets the process of the location's store end when it is idle. The caller holds busy.
func (l *location) release() {
	if l.supervisor != nil {
		l.supervisor.Unpin()
	}
	l.store, l.supervisor, l.source = nil, nil, nil
}

// open opens the store of a location. The caller holds busy.
func (h *Host) open(ctx context.Context, l *location, chosen choice[objectstore.Store]) error {
	config := maps.Clone(l.config)
	name := chosen.name
	if chosen.source.supervisor == nil {
		services, err := h.builtIns.instantiate(h.log)
		if err != nil {
			return err
		}
		store := chosen.version.Bind(h.builtIns.bound(services, name), name)
		if err := store.Init(ctx, config); err != nil {
			return err
		}
		l.store = initialised{store}
		return nil
	}
	launch := *chosen.source.launch
	launch.Plugin = name
	launch.OnStart = func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return chosen.version.Bind(conn, name).Init(ctx, config)
	}
	supervised := h.pool.Supervise(&launch)
	supervised.Pin()
	l.supervisor = supervised
	l.store = initialised{chosen.version.Bind(supervised.Conn(name, nil), name)}
	return nil
}

// initialised is a store whose Init the host has called.
type initialised struct{ objectstore.Store }

// Init returns an error: the host has called it, and calls it again after a restart.
func (initialised) Init(context.Context, map[string]string) error {
	return errors.New("the object store is initialised already, open it with another configuration instead")
}
