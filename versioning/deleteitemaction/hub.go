package deleteitemaction

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
)

// Action is the hub of the kind DeleteItemAction, in its newest shape. See backupitemaction.Action for what
// holds for every hub: JSON bytes in, safe for concurrent use, errors prefixed once with
// "DeleteItemAction(name): ".
type Action interface {
	Name() string
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute passes one item to the action, as it is in the archive of backup, which is being deleted. A
	// failed deletion may be repeated from the start.
	Execute(ctx context.Context, item, backup []byte) error
}
