package datamover

import "context"

// Mover is the hub of the kind DataMover, in its newest shape. It is safe for concurrent use. Errors are prefixed once
// with "DataMover(name): "; versioning.ErrNotFound, ErrUnavailable and ErrInvalid in them say what the caller can do,
// as documented in package framework/datamover/v1.
//
// Calls last as long as their work, and end when ctx does. report is called with the progress, one call at a time,
// before the call returns; it may be nil. A call whose plugin is silent for longer than the deadline of its kind
// (calls.WithDeadline, plugins.deadlines.kinds) ends with an error.
type Mover interface {
	Name() string
	// Backup stores the content of a volume as a new snapshot. The caller may repeat it with the same key, and sets Again
	// then.
	Backup(ctx context.Context, backup Backup, report func(Progress)) (Snapshot, error)
	// Restore writes the content of a snapshot to a volume. The caller may repeat it.
	Restore(ctx context.Context, restore Restore, report func(Progress)) (Restored, error)
	// Forget removes snapshots; those that do not exist are not an error, and those that lack a tag stay.
	Forget(ctx context.Context, forget Forget, report func(Progress)) (Forgotten, error)
	// Maintain frees the space that no snapshot needs.
	Maintain(ctx context.Context, maintain Maintain, report func(Progress)) (Maintained, error)
	// Check checks a repository, or creates it. The caller makes sure that nobody else creates the same repository
	// meanwhile.
	Check(ctx context.Context, check Check, report func(Progress)) (Checked, error)
}

// Repository is where snapshots are kept. Its formatted output does not contain Password.
type Repository struct {
	Provider string            // of the storage location: "cleat.dev/s3"
	Config   map[string]string // as the Init of the location's object store gets it, with "bucket" and "prefix"
	Path     string            // below the prefix, without a slash at its beginning or end: "restic/shop"
	Password []byte
	ReadOnly bool // the location must not be written; for Restore, and for Check without Create
}

// String returns the provider and the path without secrets.
func (r Repository) String() string { return r.Provider + " " + r.Path }

// GoString returns String.
func (r Repository) GoString() string { return r.String() }

// Volume is a volume to read or to write.
type Volume struct {
	Path  string // absolute, of a directory or a block device
	Block bool
}

// Progress is how far a call is. Numbers are not negative, do not decrease from one report to the next, and the done
// ones do not exceed a total that is known.
type Progress struct {
	DoneBytes  int64
	TotalBytes int64 // 0 while not known
	DoneFiles  int64
	TotalFiles int64  // 0 while not known
	Activity   string // one line for people; may be empty
}

// Backup is a volume to store.
type Backup struct {
	Repository Repository
	Key        string // the same for every attempt of a load, and different for every other load
	Volume     Volume
	Parent     string // snapshot of an earlier state; empty if there is none
	Tags       map[string]string
	Settings   map[string]string // of the user: "ParallelFilesUpload"
	Again      bool              // unless the caller knows that this is the first attempt with Key; costs some time
}

// Snapshot is a snapshot that is complete and durable.
type Snapshot struct {
	// one line of at most 256 bytes, not that of the parent; empty if the volume holds nothing and has no snapshot
	ID       string
	Bytes    int64 // of the volume's content
	NewBytes int64 // that the repository did not have before
	Warnings []string
}

// Restore is a snapshot to restore.
type Restore struct {
	Repository Repository
	SnapshotID string
	Volume     Volume
	Settings   map[string]string // of the user: "WriteSparseFiles"
	Bytes      int64             // of the snapshot's content, for progress; 0 if not known
}

// Restored describes a volume that is restored.
type Restored struct {
	Bytes    int64 // of the volume's content; 0 if not known
	Warnings []string
}

// Forget names snapshots to remove.
type Forget struct {
	Repository  Repository
	SnapshotIDs []string
	Tags        map[string]string // that a snapshot must have to be removed
}

// Forgotten says that snapshots are removed.
type Forgotten struct {
	Kept     []string // those that lack a tag
	Warnings []string
}

// Maintain names a repository to maintain.
type Maintain struct {
	Repository Repository
	Settings   map[string]string
}

// Maintained describes what maintenance has done.
type Maintained struct {
	FreedBytes int64 // 0 if not known
	Warnings   []string
}

// Check names a repository to check.
type Check struct {
	Repository Repository
	Depth      Depth
	Create     bool // a repository that does not exist
}

// Depth is how thoroughly a repository is checked.
type Depth int

const (
	// Access is enough to know that the repository exists and opens.
	Access Depth = iota
	// Structure makes sure that everything exists that snapshots refer to.
	Structure
	// Data reads all data.
	Data
)

// Checked says that a repository can be used.
type Checked struct {
	Created  bool
	Warnings []string
}
