package itemaction

import (
	"cmp"
	"time"

	"github.com/cleat-dev/cleat/framework"
)

// Operation is an asynchronous operation that an action started for an item.
type Operation struct {
	Action string // name of the action
	ID     string
	// Item that the operation is for. Of a restore, it has the namespace that is restored into.
	Item               framework.ResourceIdentifier
	PostOperationItems []framework.ResourceIdentifier
	Created            time.Time
}

// Compare orders operations by action, item and ID.
func (o Operation) Compare(other Operation) int {
	return cmp.Or(cmp.Compare(o.Action, other.Action), cmp.Compare(o.Item.String(), other.Item.String()), cmp.Compare(o.ID, other.ID))
}
