package v1

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// AsyncBackupItemAction is the interface that an author implements.
//
// For an item it runs after all the synchronous actions, in the order of the names. Its work goes on while the
// backup goes on; it may be done inside the plugin's process, or by a controller that Start gives a custom
// resource to. The server follows it by Progress, every few seconds, until it has completed, and the backup
// waits for that.
//
// One value serves all calls of a process, concurrently: several items of one backup, and several backups.
// Nothing may be assumed about which process or value gets which call; in particular Progress and Cancel may
// come to another process than the one whose Start began the operation. ctx ends when the backup is cancelled,
// when the server goes away, or at the server's deadline for the call; an operation lives on when ctx ends.
// AppliesTo and Progress may be repeated after they failed. Start is repeated only when its answer got lost,
// with the same key.
type AsyncBackupItemAction interface {
	// AppliesTo says which items Start wants to see; the zero value is all of them. It is asked once per
	// start of the process and the answer is kept, so it must not depend on time or on the cluster. An
	// error, or a label selector that does not parse, makes every backup fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Start begins the work on one item and does not wait for it. nil output, or one without OperationID,
	// means that there was nothing to start. An error leaves the item out of the backup, which becomes
	// PartiallyFailed.
	Start(ctx context.Context, input *StartInput) (*StartOutput, error)
	// Progress tells how far the operation is that Start answered as operationID; it looks, and does not wait.
	// An error, for instance that there is no such operation, is not its end: it is logged, and the server asks
	// again, until the backup's time for operations is over.
	Progress(ctx context.Context, operationID string, backup *velerov1.Backup) (framework.OperationProgress, error)
	// Cancel asks for the end of the operation, without waiting for it; Progress tells of the end. It is called
	// when the time for operations is over, and may be called twice, or for an operation that has ended. It
	// returns true when the operation is being stopped or has ended, false when it cannot be stopped; the
	// backup then goes on without it.
	Cancel(ctx context.Context, operationID string, backup *velerov1.Backup) (bool, error)
}

// StartInput is one item of a backup. The action owns it and may change it in place.
type StartInput struct {
	// Item is the object as it would be stored; never nil.
	Item *unstructured.Unstructured
	// Backup is what runs, with its defaults set; never nil.
	Backup *velerov1.Backup
	// Key is the same for the same item of the same backup, and of no other. An action that has started an
	// operation under it already returns that one.
	Key string
}

// StartOutput is what becomes of the item, and what was started.
type StartOutput struct {
	// UpdatedItem is stored instead of the item; nil stores the item as it came. It must be the same
	// object: same group and kind, namespace and name.
	UpdatedItem *unstructured.Unstructured
	// OperationID is what Progress and Cancel are asked about; empty when nothing was started. It has at most
	// 1024 bytes, no control characters, and must mean something to the next process of the plugin too.
	OperationID string
	// AdditionalItems are backed up as well, if they exist and the backup's filters let them through.
	// Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
	// PostOperationItems are backed up once more when the operation has ended, in the state that they have
	// then. They need an OperationID. Resource and Name must be set.
	PostOperationItems []framework.ResourceIdentifier
}

// Started is the answer of an action that has started an operation on an item as it came.
func Started(operationID string) *StartOutput {
	return &StartOutput{OperationID: operationID}
}

// WithItem stores item instead of the one that came; it returns the output it changes.
func (o *StartOutput) WithItem(item *unstructured.Unstructured) *StartOutput {
	o.UpdatedItem = item
	return o
}

// WithItems asks for more items to be backed up; it returns the output it changes.
func (o *StartOutput) WithItems(items ...framework.ResourceIdentifier) *StartOutput {
	o.AdditionalItems = append(o.AdditionalItems, items...)
	return o
}

// WithItemsAfter asks for items to be backed up once more when the operation has ended; it returns the output it
// changes.
func (o *StartOutput) WithItemsAfter(items ...framework.ResourceIdentifier) *StartOutput {
	o.PostOperationItems = append(o.PostOperationItems, items...)
	return o
}

// Register registers the action that newAction makes under name, "example.io/mover". newAction is called at the
// first call for name; its logger writes to the log of the running backup.
func Register(name string, newAction func(hclog.Logger) (AsyncBackupItemAction, error)) framework.Registration {
	return framework.Register(Kind(), name, newAction)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[AsyncBackupItemAction] {
	return framework.Kind[AsyncBackupItemAction]{Wire: "AsyncBackupItemAction", Bind: bind}
}
