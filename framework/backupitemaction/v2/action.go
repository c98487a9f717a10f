package v2

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// BackupItemAction is the interface that an author implements.
//
// One value serves all calls of a process, concurrently: several items of one backup, and several backups.
// Do not assume which process or value gets which call: Progress and Cancel may come
// to another process than the one whose Execute started the operation. ctx ends when the
// backup is cancelled, when the server stops, or at the server's deadline for the call; an action that waits for
// something else must wait for ctx too. An operation lives on when ctx ends. Execute is not
// repeated after it failed; AppliesTo and Progress may be.
//
// An operation that Execute starts has no key. The server records its id as soon as Execute has returned. If the server
// is killed before, or if Execute fails after it has started something, the server never knows of that operation:
// nobody waits for it or cancels it. A backup whose server was killed begins anew, and calls Execute again for the same
// items. An action that starts operations should therefore find the one that it has started for an item already
// (operations.Key), or be an AsyncBackupItemAction, which gets a key.
type BackupItemAction interface {
	// AppliesTo returns the selector of the items for Execute; the zero value selects all. It is called once per start of
	// the process and the answer is kept, so it must not depend on the time or on the cluster. An error, or a label
	// selector that does not parse, makes every backup fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute is called once for each item that AppliesTo selects, after the actions before it in order, whose changes it
	// sees. It may start an operation, work that goes on after Execute has returned. A nil output leaves the item as it
	// is. An error leaves the item out of the backup, which becomes PartiallyFailed.
	Execute(ctx context.Context, input *ExecuteInput) (*ExecuteOutput, error)
	// Progress returns how far the operation is that Execute has started. It looks, and does not wait. The server calls
	// it, often at first and every few seconds later, until it reports Completed; the backup waits for that.
	// framework.ErrNotFound ends the operation as failed, at once. After any other error the server calls again, until the
	// operation's time is over. It is not called for an action that starts nothing.
	Progress(ctx context.Context, input *ProgressInput) (framework.OperationProgress, error)
	// Cancel requests the end of the operation, without waiting for it; Progress then reports the end, for which the
	// server waits a minute, or as long as its configuration says. Cancel is called when the operation's time is over, and
	// when it is no longer needed: the backup was cancelled or deleted, or has failed. After an error it is called again;
	// once it has returned nil, only another server calls it again. It may also be called for an operation that has ended,
	// which is no error. It returns framework.ErrNotFound for an operation that it does not know, and
	// framework.ErrCannotCancel for one that cannot be stopped; the backup then goes on without it.
	Cancel(ctx context.Context, input *CancelInput) error
}

// ExecuteInput is one item of a backup. The action owns it and may change it in place.
type ExecuteInput struct {
	// Item is the object as it would be stored; never nil.
	Item *unstructured.Unstructured
	// Backup is the one that runs, with its defaults set; never nil.
	Backup *velerov1.Backup
}

// ExecuteOutput is what becomes of the item, and what was started.
type ExecuteOutput struct {
	// UpdatedItem is stored instead of the item; nil stores the item as it came. It must be the same object: same group
	// and kind, namespace and name. (To change ExecuteInput.Item alone changes nothing; return it here.)
	UpdatedItem *unstructured.Unstructured
	// AdditionalItems are backed up before this item, if they exist and the backup's filters include them. They go through
	// the actions like any item. Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
	// OperationID names the operation that was started, for Progress and Cancel; empty when none was. It has at most 1024
	// bytes and no control characters, and must mean something to the next process of the plugin too.
	// To start an operation while the backup is being finalized is an error of the item.
	OperationID string
	// PostOperationItems are backed up once more when the operation has ended, as they are then. They need an
	// OperationID. Resource and Name must be set.
	PostOperationItems []framework.ResourceIdentifier
}

// ProgressInput names an operation.
type ProgressInput struct {
	// OperationID is what Execute returned.
	OperationID string
	// Backup is the one for which the operation was started; never nil.
	Backup *velerov1.Backup
}

// CancelInput names an operation.
type CancelInput struct {
	// OperationID is what Execute returned.
	OperationID string
	// Backup is the one for which the operation was started; never nil.
	Backup *velerov1.Backup
}

// ExecuteOnly is embedded by an action that starts no operations. It has the methods that are never called then.
type ExecuteOnly struct{}

// Progress implements BackupItemAction.
func (ExecuteOnly) Progress(_ context.Context, input *ProgressInput) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, framework.NotFound("there is no operation %q: the action starts none",
		input.OperationID)
}

// Cancel implements BackupItemAction.
func (ExecuteOnly) Cancel(context.Context, *CancelInput) error { return nil }

// NewExecuteOutput returns the output that stores item; nil leaves the item as it came.
func NewExecuteOutput(item *unstructured.Unstructured) *ExecuteOutput {
	return &ExecuteOutput{UpdatedItem: item}
}

// WithItems requests more items to be backed up; it returns o.
func (o *ExecuteOutput) WithItems(items ...framework.ResourceIdentifier) *ExecuteOutput {
	o.AdditionalItems = append(o.AdditionalItems, items...)
	return o
}

// WithOperation declares an operation that was started, and the items to be backed up once more at its end; it returns
// o.
func (o *ExecuteOutput) WithOperation(
	operationID string, postOperationItems ...framework.ResourceIdentifier,
) *ExecuteOutput {
	o.OperationID = operationID
	o.PostOperationItems = append(o.PostOperationItems, postOperationItems...)
	return o
}

// Register registers the action that newAction makes under name, "example.io/stamp". See framework.Setup for
// when it is called.
func Register(
	name string, newAction func(context.Context, *framework.Setup) (BackupItemAction, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newAction, options)
}
