package location

import (
	"context"
	"errors"
	"fmt"
	"maps"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// OpenSnapshotter returns the plugin of a VolumeSnapshotLocation, initialised with the configuration in its spec. A
// snapshotter remains usable when its location or the Secret changes; OpenSnapshotter then returns another one.
func (o *Opener) OpenSnapshotter(
	ctx context.Context, location *velerov1.VolumeSnapshotLocation,
) (volumesnapshotter.Snapshotter, error) {
	opened, err := o.openSnapshotter(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("open volume snapshot location %s: %w", location.Name, err)
	}
	return opened, nil
}

func (o *Opener) openSnapshotter(
	ctx context.Context, location *velerov1.VolumeSnapshotLocation,
) (volumesnapshotter.Snapshotter, error) {
	if err := checkSnapshotSpec(location); err != nil {
		return nil, err
	}
	config := maps.Clone(location.Spec.Config)
	if config == nil {
		config = map[string]string{}
	}
	if err := o.addCredential(ctx, config, location, credentialsOf(location.Name),
		location.Spec.Credential); err != nil {
		return nil, err
	}
	return o.host.VolumeSnapshotter(ctx, key(location.Namespace, location.Name), location.Spec.Provider, config)
}

func checkSnapshotSpec(location *velerov1.VolumeSnapshotLocation) error {
	if location.Spec.Provider == "" {
		return errors.New("spec.provider is empty: want the name of a volume snapshotter plugin, such as velero.io/aws")
	}
	return nil
}

// CheckSnapshots is Check for a VolumeSnapshotLocation.
func CheckSnapshots(ctx context.Context, reader client.Reader, location *velerov1.VolumeSnapshotLocation) error {
	err := checkSnapshotSpec(location)
	if selector := location.Spec.Credential; err == nil && selector != nil {
		if _, err = (&secrets{reader: reader}).value(ctx, location, selector); err != nil {
			err = fmt.Errorf("spec.credential: %w", err)
		}
	}
	return err
}

// credentialsOf returns the name under which the credentials of a VolumeSnapshotLocation are kept, which no other
// location can have.
func credentialsOf(location string) string { return "volume-snapshots_" + location }

// SnapshotLocations releases what belongs to VolumeSnapshotLocations that were deleted: their plugin processes end when
// they are idle, and their credentials are removed.
type SnapshotLocations struct {
	Client client.Reader
	Opener *Opener
}

// Reconcile releases a location if it does not exist.
func (r *SnapshotLocations) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	err := r.Client.Get(ctx, request.NamespacedName, new(velerov1.VolumeSnapshotLocation))
	if client.IgnoreNotFound(err) != nil || err == nil {
		return ctrl.Result{}, err
	}
	r.Opener.host.ReleaseVolumeSnapshotter(key(request.Namespace, request.Name))
	return ctrl.Result{}, r.Opener.credentials.remove(request.Namespace, credentialsOf(request.Name))
}
