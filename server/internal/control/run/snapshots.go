package run

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// Snapshotters opens the plugins of VolumeSnapshotLocations. Its errors name the location.
type Snapshotters interface {
	OpenSnapshotter(ctx context.Context, location *velerov1.VolumeSnapshotLocation) (volumesnapshotter.Snapshotter, error)
}

// OpenSnapshotter returns a function that opens the plugin of a VolumeSnapshotLocation by name.
func (c *Cluster) OpenSnapshotter(snapshotters Snapshotters) volumes.Open {
	return func(ctx context.Context, name string) (volumesnapshotter.Snapshotter, error) {
		var location velerov1.VolumeSnapshotLocation
		err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &location)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("volume snapshot location %s/%s does not exist; create it with the provider and "+
				"configuration that it had", c.Namespace, name)
		}
		if err != nil {
			return nil, fmt.Errorf("get volume snapshot location %s: %w", name, err)
		}
		return snapshotters.OpenSnapshotter(ctx, &location)
	}
}
