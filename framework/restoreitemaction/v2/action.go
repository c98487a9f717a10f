package v2

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// RestoreItemAction is the interface that an author implements.
//
// One value serves all calls of a process, concurrently: several items of one restore, and several restores.
// Nothing may be assumed about which process or value gets which item; in particular Progress, Cancel and
// AreAdditionalItemsReady may come to another process than the one whose Execute they follow. ctx ends when the
// restore is cancelled, when the server goes away, or at the server's deadline for the call; an action that
// waits for something else must wait for ctx too. An operation lives on when ctx ends. Execute is never repeated
// for the action's sake after it failed; AppliesTo, Progress and AreAdditionalItemsReady may be.
type RestoreItemAction interface {
	// AppliesTo says which items Execute wants to see; the zero value is all of them. Namespaces are those
	// restored to. It is asked once per start of the process and the answer is kept, so it must not depend
	// on time or on the cluster. An error, or a label selector that does not parse, makes every restore fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute is called once for each item that AppliesTo selects, after the actions before it in order,
	// whose changes it sees. nil output means that the item is restored as it is. An error leaves the item
	// out of the restore, which becomes PartiallyFailed.
	Execute(ctx context.Context, input *ExecuteInput) (*ExecuteOutput, error)
	// Progress tells how far the operation is that Execute answered as operationID. The restore waits for it:
	// it is asked every few seconds until it says Completed, or until the restore's time for operations is
	// over. An error is logged and asked again. It is not called for an action that starts nothing.
	Progress(ctx context.Context, operationID string, restore *velerov1.Restore) (framework.OperationProgress, error)
	// Cancel asks for the end of the operation, without waiting for it; Progress tells of the end. It is
	// called when the time for operations is over, and may be called twice, or for an operation that has
	// ended: neither is an error. An action that cannot stop what it started returns nil.
	Cancel(ctx context.Context, operationID string, restore *velerov1.Restore) error
	// AreAdditionalItemsReady says whether all of items are ready for the item that asked for them. It is
	// called only after an Execute that answered WaitForAdditionalItems, once those items are restored, and
	// then every second or so until it says true or an error, or until the time for it is over: it looks, and
	// does not wait. The item is restored in every case; an error makes the restore PartiallyFailed, the end
	// of the time is a warning. items are those that Execute answered, in the backup's namespaces, without
	// those that could not be restored, so there may be none. An action that never waits returns true.
	AreAdditionalItemsReady(ctx context.Context, items []framework.ResourceIdentifier, restore *velerov1.Restore) (bool, error)
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
	// SkipRestore leaves the item out of the restore; the other fields then mean nothing, but for OperationID.
	SkipRestore bool
	// OperationID is what Progress and Cancel are asked about; empty when nothing was started. It has at most
	// 1024 bytes, no control characters, and must mean something to the next process of the plugin too.
	OperationID string
	// WaitForAdditionalItems holds the item back until AreAdditionalItemsReady says true; other items are
	// restored meanwhile. Without it AreAdditionalItemsReady is not called.
	WaitForAdditionalItems bool
	// AdditionalItemsReadyTimeout is how long it is held back at most; zero is the server's own timeout
	// (--resource-timeout, 10 minutes unless it is set). It must not be negative.
	AdditionalItemsReadyTimeout time.Duration
}

// ExecuteOnly is embedded by an action that starts no operations and waits for nothing: it has the methods that are never
// called then.
type ExecuteOnly struct{}

// Progress implements RestoreItemAction.
func (ExecuteOnly) Progress(_ context.Context, operationID string, _ *velerov1.Restore) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, fmt.Errorf("the action starts no operations, so there is none with the id %q", operationID)
}

// Cancel implements RestoreItemAction.
func (ExecuteOnly) Cancel(context.Context, string, *velerov1.Restore) error { return nil }

// AreAdditionalItemsReady implements RestoreItemAction.
func (ExecuteOnly) AreAdditionalItemsReady(context.Context, []framework.ResourceIdentifier, *velerov1.Restore) (bool, error) {
	return true, nil
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

// WithItemsWait holds the item back until the additional items are ready; it returns the output it changes.
func (o *ExecuteOutput) WithItemsWait() *ExecuteOutput {
	o.WaitForAdditionalItems = true
	return o
}

// WithItemsWaitFor is WithItemsWait with a timeout of its own; it returns the output it changes.
func (o *ExecuteOutput) WithItemsWaitFor(timeout time.Duration) *ExecuteOutput {
	o.AdditionalItemsReadyTimeout = timeout
	return o.WithItemsWait()
}

// WithOperation tells of an operation that was started; it returns the output it changes.
func (o *ExecuteOutput) WithOperation(operationID string) *ExecuteOutput {
	o.OperationID = operationID
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
	return framework.Kind[RestoreItemAction]{Wire: "RestoreItemActionV2", Bind: bind}
}
