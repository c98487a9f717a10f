package datamover

import (
	"context"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
)

// Mover is the hub of the kind DataMover, in its newest shape. It is safe for concurrent use. Errors are prefixed once
// with "DataMover(name): "; versioning.ErrNotFound, ErrUnavailable and ErrInvalid in them tell cases apart for the
// caller, as documented in package framework/datamover/v1.
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
	// Forget removes snapshots. It is no error if one does not exist. A snapshot without the tags stays.
	Forget(ctx context.Context, forget Forget, report func(Progress)) (Forgotten, error)
	// Maintain frees the space that no snapshot needs.
	Maintain(ctx context.Context, maintain Maintain, report func(Progress)) (Maintained, error)
	// Check checks a repository, or creates it. The caller makes sure that no other call creates the same repository
	// meanwhile.
	Check(ctx context.Context, check Check, report func(Progress)) (Checked, error)
}

// Waiting is how the activity begins of a call that moves nothing, because it waits.
const Waiting = dmv1.Waiting

// The types of the newest version. Report of the inputs is not used: the calls have it as an argument.
type (
	// Repository is where snapshots are kept. Its formatted output does not contain the password.
	Repository = dmv1.Repository
	// Volume is a volume to read or to write.
	Volume = dmv1.Volume
	// Source is what the volume of a Backup belongs to.
	Source = dmv1.Source
	// Progress is how far a call is. Numbers are not negative, do not decrease from one report to the next, and the done
	// ones do not exceed a total that is known.
	Progress = dmv1.Progress
	// Backup is a volume to store. Again costs some time; the caller sets it unless this is certainly the first attempt.
	Backup = dmv1.BackupInput
	// Snapshot is a snapshot that is complete and durable.
	Snapshot = dmv1.BackupOutput
	// Restore is a snapshot to restore.
	Restore = dmv1.RestoreInput
	// Restored describes a volume that is restored.
	Restored = dmv1.RestoreOutput
	// Forget names snapshots to remove.
	Forget = dmv1.ForgetInput
	// Forgotten means that snapshots are removed.
	Forgotten = dmv1.ForgetOutput
	// Maintain names a repository to maintain.
	Maintain = dmv1.MaintainInput
	// Maintained describes what maintenance has done.
	Maintained = dmv1.MaintainOutput
	// Check names a repository to check.
	Check = dmv1.CheckInput
	// Checked means that a repository can be used.
	Checked = dmv1.CheckOutput
	// Depth is how thoroughly a repository is checked.
	Depth = dmv1.Depth
)

// The requesters of backups, and the depths of checks from the cheapest.
const (
	PodVolume  = dmv1.PodVolume
	DataUpload = dmv1.DataUpload
	Access     = dmv1.Access
	Structure  = dmv1.Structure
	Data       = dmv1.Data
)
