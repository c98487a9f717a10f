package v1

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// AsyncRestoreItemAction is the interface that an author implements.
//
// For each item it runs after all the synchronous actions and before the item is created, in the order of the names. So
// the item does not exist yet when its operation begins, and may appear later or never: an operation that needs it
// waits for it, and gives up at last. The work goes on while the restore goes on; it may be done in the plugin's
// process, or by a controller that Start creates a custom resource for. The server follows it by Progress until it has
// completed, and the restore waits for that.
//
// One value serves all calls of a process, concurrently: several items of one restore, and several restores. Do not
// assume which process or value gets which call: Progress and Cancel may come to another process than the one whose
// Start began the operation. ctx ends when the restore is cancelled, when the server stops, or at the server's deadline
// for the call; an operation lives on when ctx ends. AppliesTo and Progress may be repeated after they failed. Start is
// repeated, with the same key, when its answer was lost and when another server takes up the restore.
type AsyncRestoreItemAction interface {
	// AppliesTo returns the selector of the items for Start; the zero value selects all. Namespaces are those restored to.
	// It is called once per start of the process and the answer is kept, so it must not depend on the time or on the
	// cluster. An error, or a label selector that does not parse, makes every restore fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Start begins the work on one item and does not wait for it. A nil output, or one without OperationID, means that
	// there was nothing to start. An error leaves the item out of the restore, which becomes PartiallyFailed.
	Start(ctx context.Context, input *StartInput) (*StartOutput, error)
	// Progress returns how far the operation is that Start has started. It looks, and does not wait. The server calls it,
	// often at first and every few seconds later, until it reports Completed; the restore waits for that.
	// framework.ErrNotFound ends the operation as failed, at once. After any other error the server calls again, until the
	// operation's time is over.
	Progress(ctx context.Context, input *ProgressInput) (framework.OperationProgress, error)
	// Cancel requests the end of the operation, without waiting for it; Progress then reports the end, for which the
	// server waits a minute, or as long as its configuration says. Cancel is called when the operation's time is over, and
	// when it is no longer needed: the restore was cancelled or deleted, or has failed. After an error it is called again;
	// once it has returned nil, only another server calls it again. It may also be called for an operation that has ended,
	// which is no error. It returns framework.ErrNotFound for an operation that it does not know, and
	// framework.ErrCannotCancel for one that cannot be stopped; the restore then goes on without it.
	Cancel(ctx context.Context, input *CancelInput) error
}

// StartInput is one item of a restore. The action owns it and may change it in place.
type StartInput struct {
	// Item is the object as it would be created; never nil. Its namespace is the one restored to.
	Item *unstructured.Unstructured
	// ItemFromBackup is the object as it is in the backup; never nil.
	ItemFromBackup *unstructured.Unstructured
	// Restore is the one that runs; never nil.
	Restore *velerov1.Restore
	// Key is the same for the same item of the same restore, and for no other. An action that has started an operation
	// under it already returns that one.
	Key string
}

// StartOutput is what becomes of the item, and what was started.
type StartOutput struct {
	// UpdatedItem is created instead of the item; nil creates the item as it came. It needs apiVersion, kind and a name.
	// (To change StartInput.Item alone changes nothing; return it here.)
	UpdatedItem *unstructured.Unstructured
	// AdditionalItems are restored from the backup before this item, and go through the actions like any item. Their
	// namespaces are those in the backup. Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
	// SkipRestore leaves the item out of the restore, for instance because the operation creates it; the other fields then
	// have no effect, except OperationID.
	SkipRestore bool
	// OperationID names the operation that was started, for Progress and Cancel; empty when none was. It has at most 1024
	// bytes and no control characters, and must mean something to the next process of the plugin too.
	OperationID string
}

// ProgressInput names an operation.
type ProgressInput struct {
	// OperationID is what Start returned.
	OperationID string
	// Restore is the one for which the operation was started; never nil.
	Restore *velerov1.Restore
}

// CancelInput names an operation.
type CancelInput struct {
	// OperationID is what Start returned.
	OperationID string
	// Restore is the one for which the operation was started; never nil.
	Restore *velerov1.Restore
}

// NewStartOutput returns the output that creates item; nil leaves the item as it came.
func NewStartOutput(item *unstructured.Unstructured) *StartOutput {
	return &StartOutput{UpdatedItem: item}
}

// WithItems requests more items to be restored; it returns o.
func (o *StartOutput) WithItems(items ...framework.ResourceIdentifier) *StartOutput {
	o.AdditionalItems = append(o.AdditionalItems, items...)
	return o
}

// WithOperation declares an operation that was started; it returns o.
func (o *StartOutput) WithOperation(operationID string) *StartOutput {
	o.OperationID = operationID
	return o
}

// WithoutRestore leaves the item out of the restore; it returns o.
func (o *StartOutput) WithoutRestore() *StartOutput {
	o.SkipRestore = true
	return o
}

// Register registers the action that newAction makes under name, "example.io/fetcher". See framework.Setup for
// when it is called.
func Register(
	name string, newAction func(context.Context, *framework.Setup) (AsyncRestoreItemAction, error),
	options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newAction, options)
}
