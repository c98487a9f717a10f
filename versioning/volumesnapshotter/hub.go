package volumesnapshotter

import "context"

// Snapshotter is the hub of the kind VolumeSnapshotter: the snapshots of one storage system, initialised once per
// process with the configuration of a volume snapshot location. Ids are the storage system's own. Safe for
// concurrent use after Init. Errors are prefixed once with "VolumeSnapshotter(name): ".
type Snapshotter interface {
	Name() string
	// Init passes the location's configuration. It is called once per process, before any other method, and
	// repeated by the host after a restart of the process.
	Init(ctx context.Context, config map[string]string) error
	// CreateVolumeFromSnapshot makes a volume like the one that the snapshot was taken of. It is never retried.
	CreateVolumeFromSnapshot(ctx context.Context, snapshotID string, like Volume) (volumeID string, err error)
	// GetVolumeInfo returns the type and the provisioned IOPS of a volume; its Zone is the zone given.
	GetVolumeInfo(ctx context.Context, volumeID, zone string) (Volume, error)
	// CreateSnapshot takes a snapshot and returns its id, never empty. It is never retried.
	CreateSnapshot(ctx context.Context, volumeID, zone string, tags map[string]string) (snapshotID string, err error)
	DeleteSnapshot(ctx context.Context, snapshotID string) error
	// GetVolumeID returns the id of the volume behind a PersistentVolume given as JSON; it is empty for volumes of other
	// storage systems.
	GetVolumeID(ctx context.Context, persistentVolume []byte) (volumeID string, err error)
	// SetVolumeID returns the JSON of the same PersistentVolume, bound to another volume.
	SetVolumeID(ctx context.Context, persistentVolume []byte, volumeID string) ([]byte, error)
}

// Volume describes a volume.
type Volume struct {
	Type string
	Zone string // availability zone; empty when the storage system has none
	IOPS int64  // provisioned I/O operations per second; 0 when the type has none
}
