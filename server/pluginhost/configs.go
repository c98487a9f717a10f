package pluginhost

import (
	"context"
	"fmt"

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

// configs configures actions.
type configs struct {
	known  []versioning.WireKind
	byName map[string][]byte // JSON of an object, by the name of the plugin
}

// apply configures the actions of the process that conn reaches, which has had no other calls. It asks the process what it
// offers, because the host does not know that at the first start.
func (c configs) apply(ctx context.Context, conn grpc.ClientConnInterface) error {
	if len(c.byName) == 0 {
		return nil
	}
	offer, err := versioning.Describe(ctx, conn)
	if err != nil {
		return err
	}
	for _, plugin := range offer.Plugins {
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
