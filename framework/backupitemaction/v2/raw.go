package v2

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
)

// RawExecutor is an optional ability of an action: ExecuteRaw is called instead of Execute, with the JSON of the item,
// which nobody has decoded. It is for actions that see a great many items and change little of each, because to decode
// and encode an item takes longer than all the rest of a call. Package rawitem helps with the JSON.
type RawExecutor interface {
	// ExecuteRaw is Execute with the item and the backup as JSON; all that is said there holds here. Both are the
	// action's to read and not to change in place, and nobody has checked them.
	ExecuteRaw(ctx context.Context, item, backup []byte) (*RawOutput, error)
}

// RawOutput is ExecuteOutput with the item as JSON.
type RawOutput struct {
	// UpdatedItem is stored instead of the item; nil stores the item as it came. It must be the same object.
	UpdatedItem []byte
	// AdditionalItems are those of ExecuteOutput.
	AdditionalItems []framework.ResourceIdentifier
	// OperationID and PostOperationItems are those of ExecuteOutput.
	OperationID        string
	PostOperationItems []framework.ResourceIdentifier
}
