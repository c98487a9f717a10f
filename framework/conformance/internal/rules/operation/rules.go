// Package operation has the rules of actions that start operations, and of calls that a host repeats. Start reading at
// starter.go.
package operation

import (
	"fmt"

	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
)

// Rules returns the rules of operations, of repeated deletions and of waiting for items.
func Rules() []suite.Rule {
	starting := wire.KindsWhere(func(k wire.ActionKind) bool { return k.Progress != nil })
	keyed := wire.KindsWhere(func(k wire.ActionKind) bool { return k.Keyed })
	waiting := wire.KindsWhere(func(k wire.ActionKind) bool { return k.Ready != nil })
	return []suite.Rule{
		{
			ID: "operation-id", Kinds: starting, Check: with(checkOperationID),
			Text: "An operation's id has at most 1024 bytes, no control characters and is not blank. It is empty if nothing " +
				"was started.",
		},
		{
			ID: "operation-items", Should: true, Check: with(checkOperationItems),
			Kinds: []string{biav2.Kind().Wire, abiav1.Kind().Wire},
			Text:  "Post-operation items come with an operation, because they are backed up when it has completed.",
		},
		{
			ID: "operation-progress", Kinds: starting, Check: with(checkProgress),
			Text: "Progress of an operation answers a progress whose counts are not negative and whose times are valid.",
		},
		{
			ID: "operation-progress-sane", Kinds: starting, Should: true, Check: with(checkProgressSane),
			Text: "A progress is consistent: no more is done than the total, an error comes with completed, and the operation " +
				"was not updated before it started.",
		},
		{
			ID: "operation-completed-stays", Kinds: starting, Check: with(checkCompletedStays),
			Text: "An operation that has completed stays completed.",
		},
		{
			ID: "operation-cancel", Kinds: starting, Check: with(checkCancel),
			Text: "Cancel of an operation is not an error, neither the first nor the second time, nor after its end. Progress " +
				"still answers after it.",
		},
		{
			ID: "operation-cancel-ends", Kinds: starting, Check: with(checkCancelEnds),
			Text: fmt.Sprintf("A cancelled operation ends: Progress says completed within %s of a Cancel without an error.",
				suite.Patience),
		},
		{
			ID: "operation-own", Kinds: starting, Check: with(checkOwnOperation),
			Text: "The same item has an operation of its own in each Backup or Restore. Cancelling that of one does not end " +
				"that of another.",
		},
		{
			ID: "operation-progress-forward", Kinds: starting, Should: true, Check: with(checkForward),
			Text: "Progress does not go back: neither the count, in the same units, nor the time of the last update. The " +
				"start time does not change.",
		},
		{
			ID: "operation-unknown", Kinds: starting, Should: true, Check: with(checkUnknownProgress),
			Text: "Progress of an operation that was never started is an error. A host that gets a progress waits for the " +
				"operation.",
		},
		{
			ID: "operation-unknown-harmless", Kinds: starting, Check: with(checkUnknownHarmless),
			Text: "Progress and Cancel answer for an operation that was never started and for an empty ID, with an error or " +
				"without. They do not panic, and the process does not exit.",
		},
		{
			ID: "operation-restart", Kinds: starting, Check: with(checkOperationRestart),
			Text: "An operation survives its process: after a kill -9 the next process answers its Progress.",
		},
		{
			ID: "start-again", Kinds: keyed, Check: with(checkStartAgain),
			Text: "A second Start with the same key answers the operation of the first one, and starts no other.",
		},
		{
			ID: "start-again-restart", Kinds: keyed, Check: with(checkStartAgainRestart),
			Text: "A second Start with the same key answers the operation of the first one also when the process was killed " +
				"in between.",
		},
		{
			ID: "start-other", Kinds: keyed, Should: true, Check: with(checkStartOther),
			Text: "Another key, for another item, starts another operation.",
		},
		{
			ID: "delete-again", Kinds: []string{diav1.Kind().Wire}, Check: with(checkDeleteAgain),
			Text: "A second deletion of the same item is not an error, because an interrupted deletion is repeated from the " +
				"start.",
		},
		{
			ID: "ready-timeout", Kinds: waiting, Check: with(checkReadyTimeout),
			Text: "additionalItemsReadyTimeout is absent, or a duration that is not negative.",
		},
		{
			ID: "ready-answers", Kinds: waiting, Check: with(checkReady),
			Text: "AreAdditionalItemsReady answers about the additional items and about none, with an error or without. It " +
				"does not panic, and the process does not exit.",
		},
	}
}
