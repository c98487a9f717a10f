package pluginhost

import (
	"context"

	"github.com/cleat-dev/cleat/versioning"
)

// ValidateConfig lets a plugin check a configuration, JSON of an object. It returns no faults for a plugin that has no
// such call, which is optional.
func (h *Host) ValidateConfig(ctx context.Context, kind, name string, config []byte) ([]versioning.ConfigFault, error) {
	found, err := h.catalog().find(kind, kind, name)
	if err != nil {
		return nil, err
	}
	listed := versioning.Listed{Kind: found.Kind, Name: found.Name}
	return versioning.ValidateConfig(ctx, h.conn(found.source, found.Name), listed, config)
}
