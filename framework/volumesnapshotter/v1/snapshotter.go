package v1

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
)

// VolumeSnapshotter is the interface that an author implements.
//
// The host runs one process per volume snapshot location (stock Velero: per operation), so one value serves one
// configuration. Init is called first and ends before anything else is called; after that calls come
// concurrently. Ids are the storage system's own and mean nothing to the host. volumeAZ is the availability zone
// that the volume's PersistentVolume is labelled with, empty when it has none. ctx ends when the caller gives
// up, when the server goes away, or at the server's deadline for the call. The host repeats no call that was
// answered with an error, so what is worth another try (a lost connection, a throttled request) is tried again
// inside the call; those that only ask are asked again of the process that takes the place of one that died.
type VolumeSnapshotter interface {
	// Init hands over the location's configuration: what the user wrote, and where set "credentialsFile" (a
	// path). Keys that are not understood should be an error, so that a typing error is found. Init should
	// not need the network. It is called once; a process that replaces one that died gets the same
	// configuration again.
	Init(ctx context.Context, config map[string]string) error
	// CreateVolumeFromSnapshot makes a new volume of a snapshot and returns its id, never empty. volumeType
	// and iops are what GetVolumeInfo told when the snapshot was taken; iops is nil for a type that has none.
	CreateVolumeFromSnapshot(ctx context.Context, snapshotID, volumeType, volumeAZ string, iops *int64) (volumeID string, err error)
	// GetVolumeInfo tells the type of a volume, and its provisioned operations a second if its type has them:
	// what CreateVolumeFromSnapshot needs to make one like it. Zero operations are the same as nil.
	GetVolumeInfo(ctx context.Context, volumeID, volumeAZ string) (volumeType string, iops *int64, err error)
	// CreateSnapshot takes a snapshot of a volume and returns its id, never empty. tags are to be put onto the
	// snapshot, beside those that the volume has. It may return before the snapshot is whole, as long as
	// the snapshot holds what the volume had at the time of the call.
	CreateSnapshot(ctx context.Context, volumeID, volumeAZ string, tags map[string]string) (snapshotID string, err error)
	// DeleteSnapshot removes a snapshot. That it is not there should not be an error: a deletion that was
	// interrupted is done again from the start.
	DeleteSnapshot(ctx context.Context, snapshotID string) error
	// GetVolumeID finds the volume behind a PersistentVolume. The empty id says that it is none of this storage
	// system; the host then tries its next location. An error fails the backup of the volume.
	GetVolumeID(ctx context.Context, persistentVolume *unstructured.Unstructured) (volumeID string, err error)
	// SetVolumeID returns persistentVolume, which it may change in place, with another volume behind it. nil
	// is the volume as it came. It must be the same PersistentVolume, by name.
	SetVolumeID(ctx context.Context, persistentVolume *unstructured.Unstructured, volumeID string) (*unstructured.Unstructured, error)
}

// Register registers the snapshotter that newSnapshotter makes under name, "example.io/san", which users write as
// provider of a VolumeSnapshotLocation. newSnapshotter is called at the first call for name; its logger writes to
// the log of the running operation.
func Register(name string, newSnapshotter func(hclog.Logger) (VolumeSnapshotter, error)) framework.Registration {
	return framework.Register(Kind(), name, newSnapshotter)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[VolumeSnapshotter] {
	return framework.Kind[VolumeSnapshotter]{Wire: "VolumeSnapshotter", Bind: bind}
}
