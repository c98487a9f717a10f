package framework

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
)

// Kind is one kind of plugin at one version. H is the Go interface that authors implement.
type Kind[H any] struct {
	// Wire is the kind's name in the plugin's list, "BackupItemAction".
	Wire string
	// Bind registers the gRPC service of the kind, which finds its implementations in handlers.
	Bind func(registrar grpc.ServiceRegistrar, handlers *Handlers[H])
}

// service is a Kind with its implementations, whatever their type.
type service interface {
	names() []string
	bind(registrar grpc.ServiceRegistrar)
}

type kindService[H any] struct {
	kind     Kind[H]
	handlers *Handlers[H]
}

func (s *kindService[H]) names() []string                      { return s.handlers.Names() }
func (s *kindService[H]) bind(registrar grpc.ServiceRegistrar) { s.kind.Bind(registrar, s.handlers) }

// Handlers finds the implementation that a request's plugin field asks for.
type Handlers[H any] struct {
	kind   string
	byName map[string]*handler[H]
}

func newHandlers[H any](kind string) *Handlers[H] {
	return &Handlers[H]{kind: kind, byName: map[string]*handler[H]{}}
}

func (h *Handlers[H]) add(name string, newHandler func(hclog.Logger) (H, error), log hclog.Logger) error {
	if _, taken := h.byName[name]; taken {
		return fmt.Errorf("the name is registered twice")
	}
	h.byName[name] = &handler[H]{newHandler: newHandler, log: log}
	return nil
}

// Names are the registered names, sorted.
func (h *Handlers[H]) Names() []string {
	return slices.Sorted(maps.Keys(h.byName))
}

// Get is the implementation registered as name, made now when this is the first call for it.
func (h *Handlers[H]) Get(name string) (H, error) {
	entry, ok := h.byName[name]
	if !ok {
		var none H
		return none, fmt.Errorf("no %s %q here; there is: %s", h.kind, name, strings.Join(h.Names(), ", "))
	}
	return entry.get()
}

// handler is one implementation, made when it is needed.
type handler[H any] struct {
	newHandler func(hclog.Logger) (H, error)
	log        hclog.Logger

	mu    sync.Mutex
	made  bool
	value H
}

func (e *handler[H]) get() (H, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made {
		return e.value, nil
	}
	value, err := e.newHandler(e.log)
	if err == nil && any(value) == nil {
		err = Errorf("the function that makes the handler returned neither a handler nor an error")
	}
	if err != nil {
		var none H
		return none, fmt.Errorf("start: %w", err)
	}
	e.value, e.made = value, true
	return value, nil
}
