// Package hosting gives the tests of packages outside of server the plugin host, which they cannot import.
package hosting

import (
	"context"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/versioning"
)

// Host is the plugin host.
type Host = pluginhost.Host

// Config is the configuration of a host.
type Config = pluginhost.Config

// New starts a host.
func New(ctx context.Context, c Config) (*Host, error) { return pluginhost.New(ctx, c) }

// All returns the plugins of a kind.
func All[H any](in pluginhost.Plugins, kind versioning.Kind[H]) []H { return pluginhost.All(in, kind) }

// Named returns the plugin of a kind with a name.
func Named[H any](in pluginhost.Plugins, kind versioning.Kind[H], name string) (H, error) {
	return pluginhost.Named(in, kind, name)
}
