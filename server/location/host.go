package location

import (
	"context"

	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// Host is the part of the plugin host that locations use.
type Host interface {
	// ObjectStore returns the store of a provider, initialised with config. It returns the same store when it is called
	// with the same location, provider and config.
	ObjectStore(ctx context.Context, location, provider string, config map[string]string) (objectstore.Store, error)
	// ReleaseObjectStore releases the stores of a location.
	ReleaseObjectStore(location string)
}

// PluginHost is a Host that runs the stores as plugins.
type PluginHost struct{ *pluginhost.Host }

// ObjectStore implements Host.
func (h PluginHost) ObjectStore(ctx context.Context, location, provider string, config map[string]string) (objectstore.Store, error) {
	return pluginhost.Open(ctx, h.Host, kinds.ObjectStore(), location, provider, config)
}

// ReleaseObjectStore implements Host.
func (h PluginHost) ReleaseObjectStore(location string) {
	h.Release(kinds.ObjectStore().Name, location)
}
