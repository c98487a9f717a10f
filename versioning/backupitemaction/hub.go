package backupitemaction

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
)

// Action is the hub of the kinds BackupItemAction and AsyncBackupItemAction: the newest shape of them, and all
// that the server knows. Every wire version is lifted to it by one facade. Items and backups travel as the JSON that
// the API server or the archive holds; a facade never decodes them except to validate.
//
// An Action is safe for concurrent use. Errors are prefixed once with the kind and the name,
// "BackupItemAction(example.io/stamp): ".
type Action interface {
	// Name is the plugin's name, "domain/name".
	Name() string
	// AppliesTo says which items the action wants. Idempotent, so the host may retry it.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute lets the action look at one item and change it. It is never retried.
	Execute(ctx context.Context, item, backup []byte) (*Result, error)
	// Progress asks after an operation that Execute started. Idempotent.
	// Versions without operations answer versioning.ErrNoOperations.
	Progress(ctx context.Context, operationID string, backup []byte) (framework.OperationProgress, error)
	// Cancel asks the plugin to stop an operation. Versions without operations answer nil. One that the plugin
	// cannot stop is versioning.ErrNotCancelled.
	Cancel(ctx context.Context, operationID string, backup []byte) error
}

// Result is what an action answers for one item.
type Result struct {
	// Item is the item as the action wants it stored; valid JSON with the group, kind, namespace and name
	// of the item asked about (the version of its API may be another). Never nil: an action that changes
	// nothing answers what it got.
	Item []byte
	// AdditionalItems are to be backed up as well, before this item.
	AdditionalItems []framework.ResourceIdentifier
	// OperationID is empty when no asynchronous operation was started.
	OperationID string
	// PostOperationItems are backed up again once the operation has ended.
	PostOperationItems []framework.ResourceIdentifier
}
