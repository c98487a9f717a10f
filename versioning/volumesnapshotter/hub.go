package volumesnapshotter

import "context"

// Snapshotter is the hub of the kind VolumeSnapshotter: the snapshots of one storage system, initialised once per
// process with the configuration of a volume snapshot location. Ids are the storage system's own. Safe for
// concurrent use after Init. Errors are prefixed once with "VolumeSnapshotter(name): ".
type Snapshotter interface {
	Name() string
	// Init passes the location's configuration. It is called once per process, before any other method, and
	// replayed by the host after a restart of the process.
	Init(ctx context.Context, config map[string]string) error
	// CreateVolumeFromSnapshot makes a volume like the one that the snapshot was taken of. Never retried.
	CreateVolumeFromSnapshot(ctx context.Context, snapshotID string, like Volume) (volumeID string, err error)
	// GetVolumeInfo tells the type and the operations of a volume; the zone of the answer is the one asked about.
	GetVolumeInfo(ctx context.Context, volumeID, zone string) (Volume, error)
	// CreateSnapshot takes a snapshot and returns its id, never empty. Never retried.
	CreateSnapshot(ctx context.Context, volumeID, zone string, tags map[string]string) (snapshotID string, err error)
	DeleteSnapshot(ctx context.Context, snapshotID string) error
	// GetVolumeID finds the volume behind the PersistentVolume whose JSON it gets; empty when it is none of this
	// storage system.
	GetVolumeID(ctx context.Context, persistentVolume []byte) (volumeID string, err error)
	// SetVolumeID answers the JSON of the same PersistentVolume with another volume behind it.
	SetVolumeID(ctx context.Context, persistentVolume []byte, volumeID string) ([]byte, error)
}

// Volume is what a volume is like.
type Volume struct {
	Type string
	Zone string // availability zone; empty when the storage system has none
	IOPS int64  // provisioned operations a second; 0 when the type has none
}
