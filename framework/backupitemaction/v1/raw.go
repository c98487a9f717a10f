package v1

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
)

// RawExecutor is an optional interface of an action. ExecuteRaw is called instead of Execute, with the JSON of the
// item, which has not been decoded. It is for actions that see a great many items and change little of each: to decode
// and encode an item takes longer than all the rest of a call. Package rawitem helps with the JSON.
type RawExecutor interface {
	// ExecuteRaw has the contract of Execute.
	ExecuteRaw(ctx context.Context, input *ExecuteRawInput) (*ExecuteRawOutput, error)
}

// ExecuteRawInput is ExecuteInput as JSON. It must not be changed in place, and has not been validated.
type ExecuteRawInput struct {
	Item   []byte
	Backup []byte
}

// ExecuteRawOutput is ExecuteOutput with the item as JSON.
type ExecuteRawOutput struct {
	// UpdatedItem is stored instead of the item; nil stores the item as it came. It must be the same object.
	UpdatedItem []byte
	// AdditionalItems are those of ExecuteOutput.
	AdditionalItems []framework.ResourceIdentifier
}
