package v1

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// RestoreItemAction is the interface that an author implements.
//
// One value serves all calls of a process. A process is asked about one item at a time, as in Velero, but the next
// one may be of another restore. Nothing may be assumed about which process or value gets which item. ctx ends when the restore is
// cancelled, when the server goes away, or at the server's deadline for the call; an action that waits for
// something else must wait for ctx too. No call is repeated for the action's sake after it failed; what
// has to be tried again is tried again inside the call.
type RestoreItemAction interface {
	// AppliesTo says which items Execute wants to see; the zero value is all of them. Namespaces are those
	// restored to. It is asked once per start of the process and the answer is kept, so it must not depend
	// on time or on the cluster. An error, or a label selector that does not parse, makes every restore fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute is called once for each item that AppliesTo selects, after the actions before it in order,
	// whose changes it sees. nil output means that the item is restored as it is. An error leaves the item
	// out of the restore, which becomes PartiallyFailed.
	Execute(ctx context.Context, input *ExecuteInput) (*ExecuteOutput, error)
}

// ExecuteInput is one item of a restore. The action owns it and may change it in place.
type ExecuteInput struct {
	// Item is the object as it would be created; never nil. Its namespace is the one restored to.
	Item *unstructured.Unstructured
	// ItemFromBackup is the object as it stands in the backup; never nil.
	ItemFromBackup *unstructured.Unstructured
	// Restore is what runs; never nil.
	Restore *velerov1.Restore
}

// ExecuteOutput is what becomes of the item.
type ExecuteOutput struct {
	// UpdatedItem is created instead of the item; nil creates the item as it came. It needs apiVersion,
	// kind and a name. (Changing ExecuteInput.Item alone changes nothing, it has to be returned here.)
	UpdatedItem *unstructured.Unstructured
	// AdditionalItems are restored from the backup before this item, and go through the actions like any
	// item. Their namespaces are those in the backup. Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
	// SkipRestore leaves the item out of the restore; the other fields then mean nothing.
	SkipRestore bool
}

// NewExecuteOutput is the answer that creates item.
func NewExecuteOutput(item *unstructured.Unstructured) *ExecuteOutput {
	return &ExecuteOutput{UpdatedItem: item}
}

// WithItems asks for more items to be restored; it returns the output it changes.
func (o *ExecuteOutput) WithItems(items ...framework.ResourceIdentifier) *ExecuteOutput {
	o.AdditionalItems = append(o.AdditionalItems, items...)
	return o
}

// WithoutRestore leaves the item out of the restore; it returns the output it changes.
func (o *ExecuteOutput) WithoutRestore() *ExecuteOutput {
	o.SkipRestore = true
	return o
}

// Register registers the action that newAction makes under name, "example.io/unstamp". newAction is called at
// the first call for name; its logger writes to the log of the running restore.
func Register(name string, newAction func(hclog.Logger) (RestoreItemAction, error)) framework.Registration {
	return framework.Register(Kind(), name, newAction)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[RestoreItemAction] {
	return framework.Kind[RestoreItemAction]{Wire: "RestoreItemAction", Bind: bind}
}
