package location

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/objectstore"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// Host is the part of the plugin host that locations use.
type Host interface {
	// ObjectStore returns the store of a provider, initialised with config. It returns the same store when it is called
	// with the same location, provider and config.
	ObjectStore(ctx context.Context, location, provider string, config map[string]string) (objectstore.Store, error)
	// InFront reports whether the store of a provider stands in front of another one (framework.RoleInFront), and returns
	// the keys of its config type.
	InFront(provider string) (keys []string, ok bool)
	// ReleaseObjectStore releases the stores of a location.
	ReleaseObjectStore(location string)
	// VolumeSnapshotter is ObjectStore for a VolumeSnapshotLocation.
	VolumeSnapshotter(ctx context.Context, location, provider string,
		config map[string]string) (volumesnapshotter.Snapshotter, error)
	// ReleaseVolumeSnapshotter releases the plugin of a VolumeSnapshotLocation.
	ReleaseVolumeSnapshotter(location string)
}

// PluginHost is a Host that runs stores and snapshotters as plugins.
type PluginHost struct{ *pluginhost.Host }

// ObjectStore implements Host.
func (h PluginHost) ObjectStore(
	ctx context.Context, location, provider string, config map[string]string,
) (objectstore.Store, error) {
	return pluginhost.Open(ctx, h.Host, kinds.ObjectStore(), location, provider, config)
}

// InFront implements Host.
func (h PluginHost) InFront(provider string) (keys []string, ok bool) {
	entry, err := h.Find(kinds.ObjectStore().Name, provider)
	if err != nil || !slices.Contains(entry.Roles, framework.RoleInFront) {
		return nil, false // opening it has the error
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(entry.ConfigSchema, &schema) != nil {
		return nil, true
	}
	return slices.Collect(maps.Keys(schema.Properties)), true
}

// ReleaseObjectStore implements Host.
func (h PluginHost) ReleaseObjectStore(location string) {
	h.Release(kinds.ObjectStore().Name, location)
}

// VolumeSnapshotter implements Host.
func (h PluginHost) VolumeSnapshotter(
	ctx context.Context, location, provider string, config map[string]string,
) (volumesnapshotter.Snapshotter, error) {
	return pluginhost.Open(ctx, h.Host, kinds.VolumeSnapshotter(), location, provider, config)
}

// ReleaseVolumeSnapshotter implements Host.
func (h PluginHost) ReleaseVolumeSnapshotter(location string) {
	h.Release(kinds.VolumeSnapshotter().Name, location)
}
