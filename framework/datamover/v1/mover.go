package v1

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// DataMover is the interface that an author implements.
//
// A repository is a folder of a storage location that belongs to the mover. It holds snapshots of volumes. One value
// serves all calls of a process, concurrently, and other processes on other nodes work with the same repositories at
// the same time.
//
// Calls last as long as their work does. While they do, they report their progress by the Report function of their
// input, at least once a minute even if nothing has changed, for example because they wait for a lock: the host takes a
// call that is silent for longer than its deadline, ten minutes by default, for one that hangs, and kills the process.
// When ctx ends, the result is no longer wanted: stop all work for the call, leave a repository that can be used, and
// return an error.
//
// Errors tell the host what to do. framework.NotFound: the repository or the snapshot does not exist.
// framework.Unavailable: a later call may succeed, because the storage is not reachable or the repository is locked.
// framework.Invalid: no later call can succeed until somebody changes something, because the password is wrong or the
// location is not one that the mover knows. All other errors are failures of this call. Errors and logs never contain
// secrets.
type DataMover interface {
	// Backup stores the content of a volume as a new snapshot, which is complete and durable when Backup returns nil. A
	// repository that does not exist is an error that wraps framework.ErrNotFound. If Again is set and there is a complete
	// snapshot for the Key of the input, Backup returns that one. An attempt that fails leaves no snapshot.
	Backup(ctx context.Context, input *BackupInput) (*BackupOutput, error)
	// Restore writes the content of a snapshot to a volume. It replaces what has the same name and leaves everything else.
	// It may be called again after it was interrupted. A snapshot that does not exist is an error that wraps
	// framework.ErrNotFound, and leaves the volume unchanged.
	Restore(ctx context.Context, input *RestoreInput) (*RestoreOutput, error)
	// Forget removes snapshots. Those that do not exist are not an error. If the input has tags, a snapshot that lacks one
	// of them stays, and is in the output. The space may be freed later, by Maintain.
	Forget(ctx context.Context, input *ForgetInput) (*ForgetOutput, error)
	// Maintain frees the space that no snapshot needs. It works beside other calls for the repository, unless the mover
	// has the role framework.RoleMaintainsAlone: then the host makes none meanwhile. There may be calls of other hosts,
	// for which Maintain waits for some time, and then returns an error that wraps framework.ErrUnavailable.
	Maintain(ctx context.Context, input *MaintainInput) (*MaintainOutput, error)
	// Check returns nil if the repository can be used, and an error if it is damaged, is not there, is of another engine,
	// or has another password. It creates a repository that does not exist if the input says so. The host does not make
	// two calls that create for one repository at once.
	Check(ctx context.Context, input *CheckInput) (*CheckOutput, error)
}

// BackupInput is a volume to store. The mover owns it.
type BackupInput struct {
	// Repository is where to store it.
	Repository Repository
	// Key identifies the load. It is the same for every attempt and different for every other load; never empty.
	Key string
	// Volume is the one to store.
	Volume Volume
	// Parent is the snapshot of an earlier state of the volume, whose unchanged files need not be read again; empty if
	// there is none. It need not exist.
	Parent string
	// Full is set if everything is to be read, as if there were no earlier snapshot. Parent is empty then.
	Full bool
	// Source is what the volume belongs to. Its fields are empty if the host does not know.
	Source Source
	// Tags are labels for the snapshot.
	Tags map[string]string
	// Settings are those of the user, "ParallelFilesUpload" for example. One that the mover does not know is a warning.
	Settings map[string]string
	// Again is set unless the host knows that this is the first attempt with Key.
	Again bool
	// Report tells the host how far the call is. It is never nil, returns soon, and can be called concurrently and often.
	Report func(Progress)
}

// BackupOutput is the snapshot that a Backup has made.
type BackupOutput struct {
	// SnapshotID identifies it in its repository: one line of at most 256 bytes, never that of the parent. It may be empty
	// if the volume holds nothing: then there is no snapshot, and nothing to restore.
	SnapshotID string
	// Bytes is the size of the volume's content.
	Bytes int64
	// NewBytes of them were not in the repository before.
	NewBytes int64
	// Warnings are what the user should know, one line each, at most 100: files that vanished while they were read.
	Warnings []string
}

// RestoreInput is a snapshot to restore. The mover owns it.
type RestoreInput struct {
	// Repository is where the snapshot is.
	Repository Repository
	// SnapshotID is the snapshot.
	SnapshotID string
	// Volume is the one to write. A directory exists, and may hold files.
	Volume Volume
	// Settings are those of the user, "WriteSparseFiles" for example. One that the mover does not know is a warning.
	Settings map[string]string
	// Bytes is the size of the snapshot's content as Backup has returned it, for progress; 0 if the host does not know.
	Bytes int64
	// Report is that of BackupInput.
	Report func(Progress)
}

// RestoreOutput describes a volume that is restored.
type RestoreOutput struct {
	// Bytes is the size of the volume's content; 0 if it is not known.
	Bytes int64
	// Warnings are what the user should know, one line each, at most 100.
	Warnings []string
}

// ForgetInput names snapshots to remove. The mover owns it.
type ForgetInput struct {
	// Repository is where the snapshots are.
	Repository Repository
	// SnapshotIDs are the snapshots, at least one.
	SnapshotIDs []string
	// Tags are those that a snapshot must have to be removed, as its Backup has got them: files that others can write may
	// have named the snapshots. Without tags, all are removed.
	Tags map[string]string
	// Report is that of BackupInput.
	Report func(Progress)
}

// ForgetOutput says that the snapshots do not exist any more, except for those that were kept.
type ForgetOutput struct {
	// Kept are those of the input that exist and lack a tag.
	Kept []string
	// Warnings are what the user should know, one line each, at most 100.
	Warnings []string
}

// MaintainInput names a repository to maintain. The mover owns it.
type MaintainInput struct {
	// Repository is the one to maintain.
	Repository Repository
	// Settings are those of the user for the repository. One that the mover does not know is a warning.
	Settings map[string]string
	// Report is that of BackupInput.
	Report func(Progress)
}

// MaintainOutput describes what maintenance has done.
type MaintainOutput struct {
	// FreedBytes is how much storage was freed; 0 if that is not known.
	FreedBytes int64
	// Warnings are what the user should know, one line each, at most 100.
	Warnings []string
}

// CheckInput names a repository to check. The mover owns it.
type CheckInput struct {
	// Repository is the one to check.
	Repository Repository
	// Depth is how thoroughly to check.
	Depth Depth
	// Create is set if a repository that does not exist is to be created.
	Create bool
	// SnapshotIDs are snapshots to look for. One that does not exist is in the output, and no error.
	SnapshotIDs []string
	// Settings are those of the user for the repository, for one that is created. One that the mover does not know is a
	// warning.
	Settings map[string]string
	// Report is that of BackupInput.
	Report func(Progress)
}

// CheckOutput says that a repository can be used.
type CheckOutput struct {
	// Created is set if it did not exist and was created.
	Created bool
	// Looked is set if the mover has looked for the SnapshotIDs of the input, of which Missing do not exist.
	Looked  bool
	Missing []string
	// Warnings are what the user should know, one line each, at most 100.
	Warnings []string
}

// Register registers the mover that newMover makes under name, "example.io/mover". See framework.Setup for when
// newMover is called, and framework.WithConfig for movers that users can configure, in plugins.config of the server's
// config file.
func Register(
	name string, newMover func(context.Context, *framework.Setup) (DataMover, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newMover, options)
}
