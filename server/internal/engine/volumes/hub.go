package volumes

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// Hub carries out what is to be done about the volumes of backups and restores. It is safe for concurrent use.
type Hub struct {
	Client    client.Client
	Live      client.Reader // reads from the API server, not from a cache
	Namespace string        // of the server
	// Roles are those of the actions.
	Roles operation.Roles
	// Keys are those of loads, whose status can be trusted only if a node agent has signed it; nil trusts all.
	Keys *loadkey.Keys
	// HasMover reports whether the node agents move data with a data mover; nil means with none.
	HasMover     func(name string) bool
	Snapshotters Snapshotters
	Records      *Records        // nil records nothing
	CSI          VolumeSnapshots // nil for none
	Repositories Repositories
}

// Snapshotters opens the plugins of VolumeSnapshotLocations. Its errors name the location.
type Snapshotters interface {
	OpenSnapshotter(ctx context.Context, location *velerov1.VolumeSnapshotLocation) (volumesnapshotter.Snapshotter, error)
}

// VolumeSnapshots are the VolumeSnapshots of backups and restores. Its calls can be repeated.
type VolumeSnapshots interface {
	// Remove deletes the VolumeSnapshots of the backup with a UID, also at the storage system.
	Remove(ctx context.Context, backup types.UID) error
	// Keep deletes only the objects of the backup with a UID: the storage system keeps what is ready.
	Keep(ctx context.Context, backup types.UID) error
	// Restored returns the VolumeSnapshots that the restore with a UID has created.
	Restored(ctx context.Context, restore types.UID) ([]types.NamespacedName, error)
	// DropRestored deletes the objects of a restored VolumeSnapshot.
	DropRestored(ctx context.Context, vs types.NamespacedName) error
	// DropResults deletes the results of DataUploads that were created in a namespace for the restore with a UID.
	DropResults(ctx context.Context, namespace string, restore types.UID) error
}

// Repositories has the data of volumes.
type Repositories interface {
	// Forget has a data mover remove those snapshots from the repository of the volumes of a namespace in a location that
	// have all the tags, and returns the others. It is no error that they do not exist. The error is ErrNoMover if the
	// server does not have the mover.
	Forget(ctx context.Context, mover, location, namespace string, snapshots []string,
		tags map[string]string) (kept []string, err error)
}

// ErrNoMover is the error of a data mover that the server does not have.
var ErrNoMover = errors.New("the server does not have the data mover")

// Open returns the plugin of the VolumeSnapshotLocation of that name.
func (h *Hub) Open(ctx context.Context, name string) (volumesnapshotter.Snapshotter, error) {
	var location velerov1.VolumeSnapshotLocation
	err := h.Live.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, &location)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("volume snapshot location %s/%s does not exist; create it with the provider and "+
			"configuration that it had", h.Namespace, name)
	}
	if err != nil {
		return nil, fmt.Errorf("get volume snapshot location %s: %w", name, err)
	}
	return h.Snapshotters.OpenSnapshotter(ctx, &location)
}

// Keep leaves the CSI snapshots of a backup that is complete, and can be restored, to the storage system.
func (h *Hub) Keep(ctx context.Context, backup types.UID) error {
	if h.CSI == nil {
		return nil
	}
	return h.CSI.Keep(ctx, backup)
}
