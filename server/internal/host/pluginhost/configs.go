package pluginhost

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
)

// ConfigError reports that an action refuses its configuration, so that its process cannot be used.
type ConfigError struct {
	Kind, Name string                   // Kind as on the wire
	Schema     []byte                   // JSON Schema of the configuration
	Faults     []versioning.ConfigFault // at least one
}

// Error implements error with the first fault.
func (e *ConfigError) Error() string {
	first := e.Faults[0]
	if first.Key != "" {
		first.Message = first.Key + ": " + first.Message
	}
	return fmt.Sprintf("%s %s refuses its configuration: %s", e.Kind, e.Name, first.Message)
}

// offer lists the plugins of a binary. The answer of its first process holds for all processes with the same content.
type offer struct {
	mu    sync.Mutex
	known *versioning.Description
}

// get asks the process that conn reaches, unless one was asked before.
func (o *offer) get(ctx context.Context, conn grpc.ClientConnInterface) (versioning.Description, error) {
	o.mu.Lock()
	known := o.known
	o.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	description, err := versioning.Describe(ctx, conn)
	if err == nil {
		o.mu.Lock()
		o.known = &description
		o.mu.Unlock()
	}
	return description, err
}

// configs configures actions.
type configs struct {
	known  []versioning.WireKind
	byName map[string][]byte // JSON of an object, by the name of the plugin
}

// apply configures the actions of a new process, which conn reaches. offered lists its plugins.
func (c configs) apply(ctx context.Context, conn grpc.ClientConnInterface, offered *offer) error {
	if len(c.byName) == 0 {
		return nil
	}
	description, err := offered.get(ctx, conn)
	if err != nil {
		return err
	}
	for _, plugin := range description.Plugins {
		config, set := c.byName[plugin.Name]
		kind, known := versioning.Lookup(c.known, plugin.Kind)
		if !set || !known || !kind.Configured || len(plugin.ConfigSchema) == 0 {
			continue
		}
		faults, err := versioning.ValidateConfig(ctx, conn, plugin.Listed, config)
		if err != nil {
			return err
		}
		if len(faults) > 0 {
			return &ConfigError{Kind: plugin.Kind, Name: plugin.Name, Schema: plugin.ConfigSchema, Faults: faults}
		}
		if err := versioning.Configure(ctx, conn, plugin.Listed, config); err != nil {
			return err
		}
	}
	return nil
}
