package restoreitemaction

import (
	"context"
	"time"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/versioning"
)

// Action is the hub of the kinds RestoreItemAction and AsyncRestoreItemAction, in their newest shape. See
// backupitemaction.Action for what holds for every hub: JSON bytes in and out, safe for concurrent use, errors
// prefixed once with the kind and the name, "RestoreItemAction(example.io/unstamp): ".
type Action interface {
	Name() string
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Starts returns whether Execute can start an operation, and whether a repeated call for the same item and restore
	// returns the same operation.
	Starts() versioning.Starts
	// Execute calls the action for one item that is about to be restored. The action may change the item, skip it, or
	// request other items to be restored before it. It is never retried, except as Starts allows.
	Execute(ctx context.Context, input Input) (*Result, error)
	Progress(ctx context.Context, operationID string, restore []byte) (framework.OperationProgress, error)
	// AtOnce returns how many operations ProgressOfMany may be called for at once; 0 if the plugin has no such call.
	AtOnce() int
	// ProgressOfMany returns the progress of operations that Execute started for one restore, by their ids. For an
	// operation that is not in the result, call Progress.
	ProgressOfMany(ctx context.Context, operationIDs []string, restore []byte) (map[string]framework.OperationProgress,
		error)
	Cancel(ctx context.Context, operationID string, restore []byte) error
	// AreAdditionalItemsReady is called until it returns true or an error, or the wait times out. It is idempotent.
	// Versions without it return true.
	AreAdditionalItemsReady(ctx context.Context, items []framework.ResourceIdentifier, restore []byte) (bool, error)
}

// Input is the input of an action; all of it is JSON.
type Input struct {
	Item           []byte // after the reset of its metadata and after earlier actions
	ItemFromBackup []byte // as it is in the archive
	Restore        []byte // the Restore, marshalled once per phase change
}

// Result is an action's reply for one item.
type Result struct {
	Item            []byte // valid JSON with apiVersion, kind and name; nil with SkipRestore only
	AdditionalItems []framework.ResourceIdentifier
	SkipRestore     bool // the item is not restored; Item and AdditionalItems are nil then
	// OperationID is empty when no asynchronous operation was started. An action may start one for an item that
	// it skips.
	OperationID string
	// WaitForAdditionalItems makes the host call AreAdditionalItemsReady before it continues.
	WaitForAdditionalItems bool
	// AdditionalItemsReadyTimeout overrides the server's timeout when it is not zero.
	AdditionalItemsReadyTimeout time.Duration
}
