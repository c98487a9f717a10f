package v2

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// RestoreItemAction is the interface that an author implements.
//
// One value serves all calls of a process, concurrently: several items of one restore, and several restores.
// Do not assume which process or value gets which call: Progress, Cancel and
// AreAdditionalItemsReady may come to another process than the one whose Execute they follow. ctx ends when the
// restore is cancelled, when the server stops, or at the server's deadline for the call; an action that waits for
// something else must wait for ctx too. An operation lives on when ctx ends. Execute is not
// repeated after it failed; AppliesTo, Progress and AreAdditionalItemsReady may be.
//
// An operation that Execute starts has no key. The server records its id as soon as Execute has returned. If the server
// is killed before, or if Execute fails after it has started something, the server never knows of that operation:
// nobody waits for it or cancels it. A restore whose server was killed goes on in the next one, which calls Execute
// again for the same items. An action that starts operations should therefore find the one that it has started for an
// item already (operations.Key), or be an AsyncRestoreItemAction, which gets a key.
type RestoreItemAction interface {
	// AppliesTo returns the selector of the items for Execute; the zero value selects all. Namespaces are those restored
	// to. It is called once per start of the process and the answer is kept, so it must not depend on the time or on the
	// cluster. An error, or a label selector that does not parse, makes every restore fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute is called once for each item that AppliesTo selects, after the actions before it in order, whose changes it
	// sees. It may start an operation, work that goes on after Execute has returned. A nil output restores the item as
	// it is. An error leaves the item out of the restore, which becomes PartiallyFailed.
	Execute(ctx context.Context, input *ExecuteInput) (*ExecuteOutput, error)
	// Progress returns how far the operation is that Execute has started. It looks, and does not wait. The server calls
	// it, often at first and every few seconds later, until it reports Completed; the restore waits for that.
	// framework.ErrNotFound ends the operation as failed, at once. After any other error the server calls again, until the
	// operation's time is over. It is not called for an action that starts nothing.
	Progress(ctx context.Context, input *ProgressInput) (framework.OperationProgress, error)
	// Cancel requests the end of the operation, without waiting for it; Progress then reports the end, for which the
	// server waits a minute, or as long as its configuration says. Cancel is called when the operation's time is over, and
	// when it is no longer needed: the restore was cancelled or deleted, or has failed. After an error it is called again;
	// once it has returned nil, only another server calls it again. It may also be called for an operation that has ended,
	// which is no error. It returns framework.ErrNotFound for an operation that it does not know, and
	// framework.ErrCannotCancel for one that cannot be stopped; the restore then goes on without it.
	Cancel(ctx context.Context, input *CancelInput) error
	// AreAdditionalItemsReady reports whether all additional items are ready for the item that needs them. It is called
	// only after an Execute that returned WaitForAdditionalItems, once those items are restored, and then every second or
	// so until it reports true or an error, or until the time for it is over: it looks, and does not wait. The item is
	// restored in every case; an error, like the end of the time, makes the restore PartiallyFailed. An action that never
	// waits reports true.
	AreAdditionalItemsReady(ctx context.Context, input *AreAdditionalItemsReadyInput) (*AreAdditionalItemsReadyOutput,
		error)
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

// ExecuteOutput is what becomes of the item, and what was started.
type ExecuteOutput struct {
	// UpdatedItem is created instead of the item; nil creates the item as it came. It needs apiVersion, kind and a name.
	// (To change ExecuteInput.Item alone changes nothing; return it here.)
	UpdatedItem *unstructured.Unstructured
	// AdditionalItems are restored from the backup before this item, and go through the actions like any item. Their
	// namespaces are those in the backup. Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
	// SkipRestore leaves the item out of the restore; the other fields then have no effect, except OperationID.
	SkipRestore bool
	// OperationID names the operation that was started, for Progress and Cancel; empty when none was. It has at most 1024
	// bytes and no control characters, and must mean something to the next process of the plugin too.
	OperationID string
	// WaitForAdditionalItems holds the item back until AreAdditionalItemsReady reports true; other items are restored
	// meanwhile. Without it AreAdditionalItemsReady is not called.
	WaitForAdditionalItems bool
	// AdditionalItemsReadyTimeout is how long the item is held back at most; zero is the server's own timeout
	// (--resource-timeout, 10 minutes unless it is set). It must not be negative.
	AdditionalItemsReadyTimeout time.Duration
}

// ProgressInput names an operation.
type ProgressInput struct {
	// OperationID is what Execute returned.
	OperationID string
	// Restore is the one for which the operation was started; never nil.
	Restore *velerov1.Restore
}

// CancelInput names an operation.
type CancelInput struct {
	// OperationID is what Execute returned.
	OperationID string
	// Restore is the one for which the operation was started; never nil.
	Restore *velerov1.Restore
}

// AreAdditionalItemsReadyInput is what an item waits for.
type AreAdditionalItemsReadyInput struct {
	// AdditionalItems are those that Execute returned, in the backup's namespaces, without those that could not be
	// restored, so there may be none.
	AdditionalItems []framework.ResourceIdentifier
	// Restore is the one that runs; never nil.
	Restore *velerov1.Restore
}

// AreAdditionalItemsReadyOutput is whether an item has to wait longer. A nil output is not ready.
type AreAdditionalItemsReadyOutput struct {
	// Ready is set when all of the additional items are ready.
	Ready bool
}

// ExecuteOnly is embedded by an action that starts no operations and waits for nothing. It has the methods that are
// never called then.
type ExecuteOnly struct{}

// Progress implements RestoreItemAction.
func (ExecuteOnly) Progress(_ context.Context, input *ProgressInput) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, framework.NotFound("there is no operation %q: the action starts none",
		input.OperationID)
}

// Cancel implements RestoreItemAction.
func (ExecuteOnly) Cancel(context.Context, *CancelInput) error { return nil }

// AreAdditionalItemsReady implements RestoreItemAction.
func (ExecuteOnly) AreAdditionalItemsReady(
	context.Context, *AreAdditionalItemsReadyInput,
) (*AreAdditionalItemsReadyOutput, error) {
	return &AreAdditionalItemsReadyOutput{Ready: true}, nil
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

// WithOperation declares an operation that was started; it returns o.
func (o *ExecuteOutput) WithOperation(operationID string) *ExecuteOutput {
	o.OperationID = operationID
	return o
}

// WithoutRestore leaves the item out of the restore; it returns o.
func (o *ExecuteOutput) WithoutRestore() *ExecuteOutput {
	o.SkipRestore = true
	return o
}

// WithItemsWait holds the item back until the additional items are ready; it returns o.
func (o *ExecuteOutput) WithItemsWait() *ExecuteOutput {
	o.WaitForAdditionalItems = true
	return o
}

// WithItemsWaitFor is WithItemsWait with a timeout of its own; it returns o.
func (o *ExecuteOutput) WithItemsWaitFor(timeout time.Duration) *ExecuteOutput {
	o.AdditionalItemsReadyTimeout = timeout
	return o.WithItemsWait()
}

// Register registers the action that newAction makes under name, "example.io/unstamp". See framework.Setup for
// when it is called.
func Register(
	name string, newAction func(context.Context, *framework.Setup) (RestoreItemAction, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newAction, options)
}
