// Package mover has the rules of data movers. They need the config of a location, in which they make repositories.
// Start reading at rules.go; mover.go calls the plugin.
package mover

import (
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
)

// Rules returns the rules of DataMover.
func Rules() []suite.Rule {
	kinds := []string{dmv1.Kind().Wire}
	return []suite.Rule{
		{
			ID: "mover-create", Kinds: kinds, Check: with(checkCreate),
			Text: "Check creates a repository that does not exist if the request says so, and only once. Later Checks of any " +
				"depth find it.",
		},
		{
			ID: "mover-missing", Kinds: kinds, Check: with(checkMissing),
			Text: "A call for a repository that does not exist is the error NOT_FOUND, and creates none.",
		},
		{
			ID: "mover-password", Kinds: kinds, Should: true, Check: with(checkPassword),
			Text: "A wrong password is the error INVALID_ARGUMENT, whose text has no password in it.",
		},
		{
			ID: "mover-messages", Kinds: kinds, Check: with(checkMessages),
			Text: "A call answers messages with progress and then one result. No number is negative, and texts are one line " +
				"of at most 1024 bytes.",
		},
		{
			ID: "mover-round-trip", Kinds: kinds, Check: with(checkRoundTrip),
			Text: "Restore writes the files that Backup has read, empty and large ones, with their permissions and symbolic " +
				"links.",
		},
		{
			ID: "mover-names", Kinds: kinds, Check: with(checkNames),
			Text: "Files come back whatever their names are: with spaces, quotes, line breaks, letters of any script, or as " +
				"long as a file system permits.",
		},
		{
			ID: "mover-replace", Kinds: kinds, Check: with(checkReplace),
			Text: "Restore replaces files of the same names, and leaves others.",
		},
		{
			ID: "mover-snapshots", Kinds: kinds, Check: with(checkSnapshots),
			Text: "Each Backup has a snapshot with an id of its own, also with a parent, and the snapshot keeps the state of " +
				"its time.",
		},
		{
			ID: "mover-parent-unknown", Kinds: kinds, Check: with(checkParentUnknown),
			Text: "A parent that does not exist is not an error.",
		},
		{
			ID: "mover-full", Kinds: kinds, Check: with(checkFull),
			Text: "A full Backup of a known source reads everything: a file that has changed without its size and time is in " +
				"the snapshot as it is now.",
		},
		{
			ID: "mover-again", Kinds: kinds, Check: with(checkAgain),
			Text: "A Backup that is made again with the same key answers with the snapshot of the first.",
		},
		{
			ID: "mover-empty", Kinds: kinds, Check: with(checkEmpty),
			Text: "An empty volume has a snapshot that is restored, or an empty id.",
		},
		{
			ID: "mover-unknown-snapshot", Kinds: kinds, Check: with(checkUnknownSnapshot),
			Text: "Restore of a snapshot that does not exist, or is in another repository, is the error NOT_FOUND, and leaves " +
				"the volume as it is.",
		},
		{
			ID: "mover-forget", Kinds: kinds, Check: with(checkForget),
			Text: "Forget removes the snapshots that it names and no others. Snapshots that do not exist are no error.",
		},
		{
			ID: "mover-maintain", Kinds: kinds, Check: with(checkMaintain),
			Text: "Snapshots can be restored after Maintain, and the repository passes a Check of all data.",
		},
		{
			ID: "mover-maintain-beside", Kinds: kinds, Check: with(checkMaintainBeside),
			Text: "Maintain works beside Backups of the same repository, and harms none, unless the mover declares the role " +
				"maintains-alone.",
		},
		{
			ID: "mover-settings", Kinds: kinds, Should: true, Check: with(checkSettings),
			Text: "A setting that the mover does not know is a warning, so that typing errors are found, " +
				"in a Backup and in a Check that creates.",
		},
		{
			ID: "mover-cancelled", Kinds: kinds, Check: with(checkCancelled),
			Text: "A Backup that the host cancels leaves a repository that can be used, and no snapshot that answers for its " +
				"key with less than the volume.",
		},
		{
			ID: "mover-concurrent", Kinds: kinds, Check: with(checkConcurrent),
			Text: "Four volumes that are backed up and restored at once keep their own contents.",
		},
		{
			ID: "mover-restart", Kinds: kinds, Check: with(checkRestart),
			Text: "Snapshots survive the process: after a kill -9 the next process restores them.",
		},
	}
}
