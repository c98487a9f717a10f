package v1

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// AsyncBackupItemAction is the interface that an author implements.
//
// For each item it runs after all the synchronous actions, in the order of the names. Its work goes on while the backup
// goes on; it may be done in the plugin's process, or by a controller that Start creates a custom resource for. The
// server follows it by Progress until it has completed, and the backup waits for that.
//
// One value serves all calls of a process, concurrently: several items of one backup, and several backups. Do not
// assume which process or value gets which call: Progress and Cancel may come to another process than the one whose
// Start began the operation. ctx ends when the backup is cancelled, when the server stops, or at the server's deadline
// for the call; an operation lives on when ctx ends. AppliesTo and Progress may be repeated after they failed. Start is
// repeated, with the same key, when its answer was lost and when another server takes up the backup.
type AsyncBackupItemAction interface {
	// AppliesTo returns the selector of the items for Start; the zero value selects all. It is called once per start of
	// the process and the answer is kept, so it must not depend on the time or on the cluster. An error, or a label
	// selector that does not parse, makes every backup fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Start begins the work on one item and does not wait for it. A nil output, or one without OperationID, means that
	// there was nothing to start. An error leaves the item out of the backup, which becomes PartiallyFailed.
	Start(ctx context.Context, input *StartInput) (*StartOutput, error)
	// Progress returns how far the operation is that Start has started. It looks, and does not wait. The server calls it,
	// often at first and every few seconds later, until it reports Completed; the backup waits for that.
	// framework.ErrNotFound ends the operation as failed, at once. After any other error the server calls again, until the
	// operation's time is over.
	Progress(ctx context.Context, input *ProgressInput) (framework.OperationProgress, error)
	// Cancel requests the end of the operation, without waiting for it; Progress then reports the end, for which the
	// server waits a minute, or as long as its configuration says. Cancel is called when the operation's time is over, and
	// when it is no longer needed: the backup was cancelled or deleted, or has failed. After an error it is called again;
	// once it has returned nil, only another server calls it again. It may also be called for an operation that has ended,
	// which is no error. It returns framework.ErrNotFound for an operation that it does not know, and
	// framework.ErrCannotCancel for one that cannot be stopped; the backup then goes on without it.
	Cancel(ctx context.Context, input *CancelInput) error
}

// StartInput is one item of a backup. The action owns it and may change it in place.
type StartInput struct {
	// Item is the object as it would be stored; never nil.
	Item *unstructured.Unstructured
	// Backup is the one that runs, with its defaults set; never nil.
	Backup *velerov1.Backup
	// Key is the same for the same item of the same backup, and for no other. An action that has started an operation
	// under it already returns that one.
	Key string
}

// StartOutput is what becomes of the item, and what was started.
type StartOutput struct {
	// UpdatedItem is stored instead of the item; nil stores the item as it came. It must be the same object: same group
	// and kind, namespace and name. (To change StartInput.Item alone changes nothing; return it here.)
	UpdatedItem *unstructured.Unstructured
	// AdditionalItems are backed up as well, if they exist and the backup's filters include them. They go through
	// the actions like any item. Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
	// OperationID names the operation that was started, for Progress and Cancel; empty when none was. It has at most 1024
	// bytes and no control characters, and must mean something to the next process of the plugin too.
	OperationID string
	// PostOperationItems are backed up once more when the operation has ended, as they are then. They need an
	// OperationID. Resource and Name must be set.
	PostOperationItems []framework.ResourceIdentifier
}

// ProgressInput names an operation.
type ProgressInput struct {
	// OperationID is what Start returned.
	OperationID string
	// Backup is the one for which the operation was started; never nil.
	Backup *velerov1.Backup
}

// CancelInput names an operation.
type CancelInput struct {
	// OperationID is what Start returned.
	OperationID string
	// Backup is the one for which the operation was started; never nil.
	Backup *velerov1.Backup
}

// NewStartOutput returns the output that stores item; nil leaves the item as it came.
func NewStartOutput(item *unstructured.Unstructured) *StartOutput {
	return &StartOutput{UpdatedItem: item}
}

// WithItems requests more items to be backed up; it returns o.
func (o *StartOutput) WithItems(items ...framework.ResourceIdentifier) *StartOutput {
	o.AdditionalItems = append(o.AdditionalItems, items...)
	return o
}

// WithOperation declares an operation that was started, and the items to be backed up once more at its end; it returns
// o.
func (o *StartOutput) WithOperation(
	operationID string, postOperationItems ...framework.ResourceIdentifier,
) *StartOutput {
	o.OperationID = operationID
	o.PostOperationItems = append(o.PostOperationItems, postOperationItems...)
	return o
}

// Register registers the action that newAction makes under name, "example.io/mover". See framework.Setup for
// when it is called.
func Register(
	name string, newAction func(context.Context, *framework.Setup) (AsyncBackupItemAction, error),
	options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newAction, options)
}
