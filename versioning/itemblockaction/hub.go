package itemblockaction

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
)

// Action is the hub of the kind ItemBlockAction, in its newest shape. See backupitemaction.Action for what
// holds for every hub: JSON bytes in, safe for concurrent use, errors prefixed once with
// "ItemBlockAction(name): ".
type Action interface {
	Name() string
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// GetRelatedItems returns the items that belong in one block with item. They are well-formed identifiers; the objects
	// may not exist.
	GetRelatedItems(ctx context.Context, item, backup []byte) ([]framework.ResourceIdentifier, error)
}
