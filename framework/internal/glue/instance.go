package glue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kept is the number of instances that an implementation keeps if its calls carry configurations. More than one entry
// of a policy list may name the same plugin.
const kept = 8

// handler holds one implementation: its constructor and the instances that it has created.
type handler[H any] struct {
	kind      Kind[H]
	construct Constructor[H]
	config    *ConfigType // nil if it takes none
	setup     Setup       // without a configuration

	mu          sync.Mutex
	current     []byte // set by Init or Configure
	initialised bool
	instances   []*Use[H] // most recently used first
}

// Use is an instance of an implementation while calls use it.
type Use[H any] struct {
	// Handler is the implementation.
	Handler H

	owner   *handler[H]
	config  []byte
	calls   int
	retired bool // removed from owner.instances
}

// Release ends one use. The last release of a retired instance closes it.
func (u *Use[H]) Release() {
	u.owner.mu.Lock()
	u.calls--
	closes := u.retired && u.calls == 0
	u.owner.mu.Unlock()
	if closes {
		u.close()
	}
}

func (u *Use[H]) close() {
	closer, ok := any(u.Handler).(io.Closer)
	if !ok {
		return
	}
	if err := closer.Close(); err != nil {
		u.owner.setup.log.Warn("could not close an implementation whose configuration has changed", "error", err)
	}
}

func (h *handler[H]) use(ctx context.Context) (*Use[H], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kind.HasInit && !h.initialised {
		return nil, status.Errorf(codes.FailedPrecondition, "%s %q has no configuration yet: call Init first", h.kind.Wire,
			h.setup.name)
	}
	used, err := h.get(ctx, h.current, 1)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return used, nil
}

func (h *handler[H]) useWith(ctx context.Context, config []byte) (*Use[H], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	used, err := h.get(ctx, config, kept)
	if problem := (*configError)(nil); errors.As(err, &problem) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return used, nil
}

// configure sets the configuration for later calls.
func (h *handler[H]) configure(config []byte) error {
	if h.kind.HasInit {
		return Invalid("%s %q is configured by Init", h.kind.Wire, h.setup.name)
	}
	if _, err := h.config.decode(config); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = bytes.Clone(config)
	return nil
}

// init creates an instance with the configuration of a location, which replaces the previous one.
func (h *handler[H]) init(ctx context.Context, location map[string]string) error {
	config, err := h.config.fromStrings(location, h.kind.HostKeys)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	used, err := h.get(ctx, config, 1)
	if err != nil {
		return err
	}
	used.calls--
	h.current, h.initialised = config, true
	return nil
}

// get returns the instance for config and creates it if needed. It keeps at most the given number of instances. h.mu
// must be held.
func (h *handler[H]) get(ctx context.Context, config []byte, most int) (*Use[H], error) {
	for i, known := range h.instances {
		if !bytes.Equal(known.config, config) {
			continue
		}
		if i > 0 {
			h.instances = slices.Insert(slices.Delete(h.instances, i, i+1), 0, known)
		}
		known.calls++
		return known, nil
	}
	made, err := h.make(ctx, config)
	if err != nil {
		return nil, err
	}
	h.instances = slices.Insert(h.instances, 0, made)
	for len(h.instances) > most {
		last := h.instances[len(h.instances)-1]
		h.instances = h.instances[:len(h.instances)-1]
		last.retired = true
		if last.calls == 0 {
			last.close()
		}
	}
	return made, nil
}

func (h *handler[H]) make(ctx context.Context, config []byte) (*Use[H], error) {
	setup := h.setup
	var err error
	if setup.config, err = h.config.decode(config); err != nil {
		return nil, err
	}
	value, err := h.construct(ctx, &setup)
	if err == nil && any(value) == nil {
		err = errors.New("the constructor returned neither an implementation nor an error")
	}
	if err != nil {
		return nil, err
	}
	return &Use[H]{Handler: value, owner: h, config: bytes.Clone(config), calls: 1}, nil
}
