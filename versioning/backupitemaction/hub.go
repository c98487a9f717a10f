package backupitemaction

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/versioning"
)

// Action is the hub of the kinds BackupItemAction and AsyncBackupItemAction: their newest shape, and the only one that
// the server uses. Every wire version is lifted to it by one facade. Items and backups travel as the JSON that the API
// server or the archive holds; a facade never decodes them except to validate.
//
// An Action is safe for concurrent use. Errors are prefixed once with the kind and the name,
// "BackupItemAction(example.io/stamp): ".
type Action interface {
	// Name returns the plugin's name, "domain/name".
	Name() string
	// AppliesTo returns the selector of the action. It is idempotent, so the host may retry it.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Starts returns whether Execute can start an operation, and whether a repeated call for the same item and backup
	// returns the same operation.
	Starts() versioning.Starts
	// Execute lets the action look at one item and change it. It is never retried, except as Starts allows.
	Execute(ctx context.Context, item, backup []byte) (*Result, error)
	// Progress returns the progress of an operation that Execute started. It is idempotent.
	// Versions without operations return versioning.ErrNoOperations.
	Progress(ctx context.Context, operationID string, backup []byte) (framework.OperationProgress, error)
	// AtOnce returns how many operations ProgressOfMany may be called for at once; 0 if the plugin has no such call.
	AtOnce() int
	// ProgressOfMany returns the progress of operations that Execute started for one backup, by their ids. For an
	// operation that is not in the result, call Progress.
	ProgressOfMany(ctx context.Context, operationIDs []string, backup []byte) (map[string]framework.OperationProgress,
		error)
	// Cancel asks the plugin to stop an operation. Versions without operations return nil. If the plugin cannot stop the
	// operation, the error is versioning.ErrNotCancelled.
	Cancel(ctx context.Context, operationID string, backup []byte) error
}

// Result is an action's reply for one item.
type Result struct {
	// Item is the item to be stored; valid JSON with the group, kind, namespace and name of the item sent (the API version
	// may differ). It is never nil: an action that changes nothing returns the item that it received.
	Item []byte
	// AdditionalItems are backed up as well, before this item.
	AdditionalItems []framework.ResourceIdentifier
	// OperationID is empty when no asynchronous operation was started.
	OperationID string
	// PostOperationItems are backed up again once the operation has ended.
	PostOperationItems []framework.ResourceIdentifier
}
