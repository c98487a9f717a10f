package v1

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// RestoreItemAction is the interface that an author implements.
//
// One value serves all calls of a process. A process gets one item at a time, as in Velero, but the next one may belong
// to another restore. Do not assume which process or value gets which item. ctx ends when the restore is cancelled,
// when the server stops, or at the server's deadline for the call; an action that waits for something else must wait
// for ctx too. The server repeats no call that failed; what has to be tried again is tried again inside the call.
type RestoreItemAction interface {
	// AppliesTo returns the selector of the items for Execute; the zero value selects all. Namespaces are those restored
	// to. It is called once per start of the process and the answer is kept, so it must not depend on the time or on the
	// cluster. An error, or a label selector that does not parse, makes every restore fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute is called once for each item that AppliesTo selects, after the actions before it in order, whose changes it
	// sees. A nil output restores the item as it is. An error leaves the item out of the restore, which becomes
	// PartiallyFailed.
	Execute(ctx context.Context, input *ExecuteInput) (*ExecuteOutput, error)
}

// ExecuteInput is one item of a restore. The action owns it and may change it in place.
type ExecuteInput struct {
	// Item is the object as it would be created; never nil. Its namespace is the one restored to.
	Item *unstructured.Unstructured
	// ItemFromBackup is the object as it is in the backup; never nil.
	ItemFromBackup *unstructured.Unstructured
	// Restore is the one that runs; never nil.
	Restore *velerov1.Restore
}

// ExecuteOutput is what becomes of the item.
type ExecuteOutput struct {
	// UpdatedItem is created instead of the item; nil creates the item as it came. It needs apiVersion, kind and a name.
	// (To change ExecuteInput.Item alone changes nothing; return it here.)
	UpdatedItem *unstructured.Unstructured
	// AdditionalItems are restored from the backup before this item, and go through the actions like any item. Their
	// namespaces are those in the backup. Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
	// SkipRestore leaves the item out of the restore; the other fields then have no effect.
	SkipRestore bool
}

// NewExecuteOutput returns the output that creates item; nil leaves the item as it came.
func NewExecuteOutput(item *unstructured.Unstructured) *ExecuteOutput {
	return &ExecuteOutput{UpdatedItem: item}
}

// WithItems requests more items to be restored; it returns o.
func (o *ExecuteOutput) WithItems(items ...framework.ResourceIdentifier) *ExecuteOutput {
	o.AdditionalItems = append(o.AdditionalItems, items...)
	return o
}

// WithoutRestore leaves the item out of the restore; it returns o.
func (o *ExecuteOutput) WithoutRestore() *ExecuteOutput {
	o.SkipRestore = true
	return o
}

// Register registers the action that newAction makes under name, "example.io/unstamp". See framework.Setup for
// when it is called.
func Register(
	name string, newAction func(context.Context, *framework.Setup) (RestoreItemAction, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newAction, options)
}
