package v1

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// VolumeSnapshotter is the interface that an author implements.
//
// The host runs one process per volume snapshot location (stock Velero: per operation) and gives it the location's
// configuration before all calls. The snapshotter is made with that; see framework.WithConfig. Calls come concurrently.
// Ids are the storage system's own and mean nothing to the host. VolumeAZ is the availability zone that the volume's
// PersistentVolume is labelled with, empty when it has none. ctx ends when the caller gives up, when the server stops,
// or at the server's deadline for the call. The host repeats no call that returned an error, so what is worth another
// attempt (a lost connection, a throttled request) is tried again inside the call; calls that change nothing are
// repeated when the process died.
type VolumeSnapshotter interface {
	// CreateVolumeFromSnapshot makes a new volume of a snapshot.
	CreateVolumeFromSnapshot(ctx context.Context, input *CreateVolumeFromSnapshotInput) (*CreateVolumeFromSnapshotOutput,
		error)
	// GetVolumeInfo returns what CreateVolumeFromSnapshot needs to make a volume like this one.
	GetVolumeInfo(ctx context.Context, input *GetVolumeInfoInput) (*GetVolumeInfoOutput, error)
	// CreateSnapshot takes a snapshot of a volume. It may return before the snapshot is complete, as long as the snapshot
	// has the content of the volume at the time of the call.
	CreateSnapshot(ctx context.Context, input *CreateSnapshotInput) (*CreateSnapshotOutput, error)
	// DeleteSnapshot removes a snapshot. That there is none should not be an error: a deletion that was interrupted is
	// done again from the start.
	DeleteSnapshot(ctx context.Context, input *DeleteSnapshotInput) error
	// GetVolumeID finds the volume behind a PersistentVolume. An error fails the backup of the volume.
	GetVolumeID(ctx context.Context, input *GetVolumeIDInput) (*GetVolumeIDOutput, error)
	// SetVolumeID puts another volume behind a PersistentVolume.
	SetVolumeID(ctx context.Context, input *SetVolumeIDInput) (*SetVolumeIDOutput, error)
}

// LocationConfig has the keys that the host adds to the configuration of every location. A config type that needs one
// of them has a field for it, or embeds LocationConfig.
type LocationConfig struct {
	// CredentialsFile is the path of a file with the Secret of the location.
	CredentialsFile string `json:"credentialsFile,omitempty"`
}

// CreateVolumeFromSnapshotInput is a volume to be made. VolumeType and IOPS are what GetVolumeInfo returned when the
// snapshot was taken.
type CreateVolumeFromSnapshotInput struct {
	SnapshotID string
	VolumeType string
	VolumeAZ   string
	// IOPS is nil for a type that has none.
	IOPS *int64
}

// CreateVolumeFromSnapshotOutput is a new volume.
type CreateVolumeFromSnapshotOutput struct {
	// VolumeID is never empty.
	VolumeID string
}

// GetVolumeInfoInput names a volume.
type GetVolumeInfoInput struct {
	VolumeID string
	VolumeAZ string
}

// GetVolumeInfoOutput describes a volume.
type GetVolumeInfoOutput struct {
	VolumeType string
	// IOPS are the provisioned operations per second, if the type has them. Zero is the same as nil.
	IOPS *int64
}

// CreateSnapshotInput names a volume.
type CreateSnapshotInput struct {
	VolumeID string
	VolumeAZ string
	// Tags are to be put onto the snapshot, besides those that the volume has.
	Tags map[string]string
}

// CreateSnapshotOutput is a new snapshot.
type CreateSnapshotOutput struct {
	// SnapshotID is never empty.
	SnapshotID string
}

// DeleteSnapshotInput names a snapshot.
type DeleteSnapshotInput struct {
	SnapshotID string
}

// GetVolumeIDInput is a PersistentVolume.
type GetVolumeIDInput struct {
	PersistentVolume *unstructured.Unstructured
}

// GetVolumeIDOutput is the volume behind a PersistentVolume.
type GetVolumeIDOutput struct {
	// VolumeID is empty for a volume that is not one of this storage system; the host then tries its next location.
	VolumeID string
}

// SetVolumeIDInput is a PersistentVolume and the volume to be put behind it.
type SetVolumeIDInput struct {
	// PersistentVolume may be changed in place.
	PersistentVolume *unstructured.Unstructured
	VolumeID         string
}

// SetVolumeIDOutput is a PersistentVolume with another volume behind it. A nil output is the PersistentVolume as it
// came.
type SetVolumeIDOutput struct {
	// PersistentVolume must be the same one, by name.
	PersistentVolume *unstructured.Unstructured
}

// Register registers the snapshotter that newSnapshotter makes under name, "example.io/san", which users write as
// provider of a VolumeSnapshotLocation. See framework.Setup for when newSnapshotter is called.
func Register(
	name string, newSnapshotter func(context.Context, *framework.Setup) (VolumeSnapshotter, error),
	options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newSnapshotter, options)
}
