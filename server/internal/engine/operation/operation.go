package operation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
)

// Kinds of owners.
const (
	OfBackup  = "Backup"
	OfRestore = "Restore"
)

// Owner is the backup or restore for which operations were started.
type Owner struct {
	Kind      string // OfBackup or OfRestore
	Namespace string
	Name      string
	UID       types.UID
	JSON      []byte // of the object; ForPlugins returns the JSON for plugins
}

// Phase is the phase of an operation, with its name in Velero's files.
type Phase string

// Phases. An operation is New until its plugin reports that the work has begun.
const (
	New        Phase = "New"
	InProgress Phase = "InProgress"
	Completed  Phase = "Completed"
	Failed     Phase = "Failed"
)

// Ended reports whether the phase is a final one.
func (p Phase) Ended() bool { return p == Completed || p == Failed }

// Start is a request to an action to start an operation for an item.
type Start struct {
	Action string // name of the action
	// Item is the item of the operation. For a restore, its namespace is the target namespace.
	Item framework.ResourceIdentifier
	// Sent is the identity of the item in the call of the action: a JSON object with apiVersion, kind, and metadata
	// with name and namespace. If the call is repeated only to get the ID of the operation, this is the item of the
	// call if there is no other.
	Sent []byte
}

// Operation is an asynchronous operation that an action started for an item.
type Operation struct {
	Action             string
	ID                 string
	Item               framework.ResourceIdentifier // see Start
	PostOperationItems []framework.ResourceIdentifier
	Created            time.Time
	Status
}

// Status is the state of an operation.
type Status struct {
	Phase       Phase
	Error       string // of a failed operation
	NCompleted  int64
	NTotal      int64
	Units       string
	Description string
	LastLines   string    // of the output, during the work and after a failure
	Started     time.Time // zero if the plugin has not reported it
	Updated     time.Time // zero if the plugin has not reported it
}

// Counts are numbers of operations.
type Counts struct{ Attempted, Completed, Failed int }

// Count counts operations.
func Count(all []Operation) Counts {
	var c Counts
	for i := range all {
		c.add(all[i].Phase)
	}
	return c
}

func (c *Counts) add(p Phase) {
	c.Attempted++
	switch p {
	case Completed:
		c.Completed++
	case Failed:
		c.Failed++
	default:
	}
}

// Open returns the number of operations that have not ended.
func (c Counts) Open() int { return c.Attempted - c.Completed - c.Failed }

// Compare orders operations by action, item and ID.
func (o Operation) Compare(other Operation) int {
	return cmp.Or(cmp.Compare(o.Action, other.Action), cmp.Compare(o.Item.String(), other.Item.String()),
		cmp.Compare(o.ID, other.ID))
}

// Namespaces returns the namespaces of the items of open operations, sorted. "" stands for cluster-scoped items.
func Namespaces(operations []Operation) []string {
	seen := map[string]struct{}{}
	for i := range operations {
		if !operations[i].Phase.Ended() {
			seen[operations[i].Item.Namespace] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
