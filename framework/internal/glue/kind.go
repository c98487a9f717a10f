package glue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
)

// KindVersion describes one version of a kind on the wire. Hosts and the kits that test plugins use the same
// description as the plugins.
type KindVersion struct {
	// Wire is the name of the version in the plugin's list, "BackupItemActionV2".
	Wire string
	// Probe is the full name of a method that may be called with nothing but the name of an implementation to see
	// whether the version is served.
	Probe string
	// Listed is the position of the version in the list of PluginLister, which has Velero's kinds only; 0 for others.
	Listed int
	// Operations reports whether its calls may start operations that go on after them.
	Operations bool
	// HasInit reports whether a call of Init sends the configuration before all other calls.
	HasInit bool
	// Policy reports whether each call carries the configuration. A kind without HasInit and Policy is configured by
	// PluginInfo.
	Policy bool
	// HostKeys are the keys that the host adds to the configuration in Init. A config type needs no fields for them.
	HostKeys []string
}

// Kind is one kind of plugin at one version. H is the Go interface that authors implement.
type Kind[H any] struct {
	KindVersion
	// Bind registers the kind's gRPC service, which finds its implementations in handlers.
	Bind func(registrar grpc.ServiceRegistrar, handlers *Handlers[H])
}

// service is a Kind with its implementations, independent of their type.
type service interface {
	version() KindVersion
	names() []string
	bind(registrar grpc.ServiceRegistrar)
	configure(ctx context.Context, name string, config []byte) error
}

type kindService[H any] struct {
	kind     Kind[H]
	handlers *Handlers[H]
}

func (s *kindService[H]) version() KindVersion                 { return s.kind.KindVersion }
func (s *kindService[H]) names() []string                      { return s.handlers.Names() }
func (s *kindService[H]) bind(registrar grpc.ServiceRegistrar) { s.kind.Bind(registrar, s.handlers) }

func (s *kindService[H]) configure(ctx context.Context, name string, config []byte) error {
	handler, err := s.handlers.find(ctx, name)
	if err != nil {
		return err
	}
	return handler.configure(config)
}

// Handlers holds the implementations of a kind by name.
type Handlers[H any] struct {
	kind   Kind[H]
	byName map[string]*handler[H]
}

func newHandlers[H any](kind Kind[H]) *Handlers[H] {
	return &Handlers[H]{kind: kind, byName: map[string]*handler[H]{}}
}

func (h *Handlers[H]) add(name string, construct Constructor[H], config *ConfigType, env Environment) error {
	if _, taken := h.byName[name]; taken {
		return fmt.Errorf("the name is registered twice")
	}
	h.byName[name] = &handler[H]{
		kind: h.kind, construct: construct, config: config,
		setup: Setup{name: name, env: env, log: env.Log.With("plugin", name)},
	}
	return nil
}

// Names returns the registered names, sorted.
func (h *Handlers[H]) Names() []string {
	return slices.Sorted(maps.Keys(h.byName))
}

// find returns the handler of an implementation and adds the name to the call's logger.
func (h *Handlers[H]) find(ctx context.Context, name string) (*handler[H], error) {
	found, ok := h.byName[name]
	if !ok {
		return nil, fmt.Errorf("no %s %q here; there is: %s", h.kind.Wire, name, strings.Join(h.Names(), ", "))
	}
	if call := callOf(ctx); call != nil {
		call.log = found.setup.log
	}
	return found, nil
}

// Use returns an instance of the implementation name and creates it if needed. The caller must call Release.
func (h *Handlers[H]) Use(ctx context.Context, name string) (*Use[H], error) {
	found, err := h.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return found.use(ctx)
}

// UseWith is like Use for a kind whose calls carry the configuration: a JSON object or nothing.
func (h *Handlers[H]) UseWith(ctx context.Context, name string, config []byte) (*Use[H], error) {
	found, err := h.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return found.useWith(ctx, config)
}

// Init creates an instance of the implementation name with the configuration of a location.
func (h *Handlers[H]) Init(ctx context.Context, name string, config map[string]string) error {
	found, err := h.find(ctx, name)
	if err != nil {
		return err
	}
	return found.init(ctx, config)
}
