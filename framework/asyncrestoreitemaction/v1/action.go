package v1

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// AsyncRestoreItemAction is the interface that an author implements.
//
// For an item it runs after all the synchronous actions and before the item is created, in the order of the
// names. So the item does not exist yet when its operation begins, and may take its time to appear, or never
// come: an operation that needs it waits for it, and gives up at last. The work goes on while the restore goes
// on; it may be done inside the plugin's process, or by a controller that Start gives a custom resource to. The
// server follows it by Progress, every few seconds, until it has completed, and the restore waits for that.
//
// One value serves all calls of a process, concurrently: several items of one restore, and several restores.
// Nothing may be assumed about which process or value gets which call; in particular Progress and Cancel may
// come to another process than the one whose Start began the operation. ctx ends when the restore is cancelled,
// when the server goes away, or at the server's deadline for the call; an operation lives on when ctx ends.
// AppliesTo and Progress may be repeated after they failed. Start is repeated only when its answer got lost,
// with the same key.
type AsyncRestoreItemAction interface {
	// AppliesTo says which items Start wants to see; the zero value is all of them. Namespaces are those
	// restored to. It is asked once per start of the process and the answer is kept, so it must not depend
	// on time or on the cluster. An error, or a label selector that does not parse, makes every restore fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Start begins the work on one item and does not wait for it. nil output, or one without OperationID,
	// means that there was nothing to start. An error leaves the item out of the restore, which becomes
	// PartiallyFailed.
	Start(ctx context.Context, input *StartInput) (*StartOutput, error)
	// Progress tells how far the operation is that Start answered as operationID; it looks, and does not wait.
	// An error, for instance that there is no such operation, is not its end: it is logged, and the server asks
	// again, until the restore's time for operations is over.
	Progress(ctx context.Context, operationID string, restore *velerov1.Restore) (framework.OperationProgress, error)
	// Cancel asks for the end of the operation, without waiting for it; Progress tells of the end. It is called
	// when the time for operations is over, and may be called twice, or for an operation that has ended. It
	// returns true when the operation is being stopped or has ended, false when it cannot be stopped; the
	// restore then goes on without it.
	Cancel(ctx context.Context, operationID string, restore *velerov1.Restore) (bool, error)
}

// StartInput is one item of a restore. The action owns it and may change it in place.
type StartInput struct {
	// Item is the object as it would be created; never nil. Its namespace is the one restored to.
	Item *unstructured.Unstructured
	// ItemFromBackup is the object as it stands in the backup; never nil.
	ItemFromBackup *unstructured.Unstructured
	// Restore is what runs; never nil.
	Restore *velerov1.Restore
	// Key is the same for the same item of the same restore, and of no other. An action that has started an
	// operation under it already returns that one.
	Key string
}

// StartOutput is what becomes of the item, and what was started.
type StartOutput struct {
	// UpdatedItem is created instead of the item; nil creates the item as it came. It needs apiVersion,
	// kind and a name.
	UpdatedItem *unstructured.Unstructured
	// OperationID is what Progress and Cancel are asked about; empty when nothing was started. It has at most
	// 1024 bytes, no control characters, and must mean something to the next process of the plugin too.
	OperationID string
	// SkipRestore has the server not create the item, for instance because the operation does; the other
	// fields then mean nothing, but for OperationID.
	SkipRestore bool
	// AdditionalItems are restored from the backup before this item, and go through the actions like any
	// item. Their namespaces are those in the backup. Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
}

// Started is the answer of an action that has started an operation on an item as it came.
func Started(operationID string) *StartOutput {
	return &StartOutput{OperationID: operationID}
}

// WithItem creates item instead of the one that came; it returns the output it changes.
func (o *StartOutput) WithItem(item *unstructured.Unstructured) *StartOutput {
	o.UpdatedItem = item
	return o
}

// WithItems asks for more items to be restored; it returns the output it changes.
func (o *StartOutput) WithItems(items ...framework.ResourceIdentifier) *StartOutput {
	o.AdditionalItems = append(o.AdditionalItems, items...)
	return o
}

// WithoutRestore has the server not create the item; it returns the output it changes.
func (o *StartOutput) WithoutRestore() *StartOutput {
	o.SkipRestore = true
	return o
}

// Register registers the action that newAction makes under name, "example.io/fetcher". newAction is called at
// the first call for name; its logger writes to the log of the running restore.
func Register(name string, newAction func(hclog.Logger) (AsyncRestoreItemAction, error)) framework.Registration {
	return framework.Register(Kind(), name, newAction)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[AsyncRestoreItemAction] {
	return framework.Kind[AsyncRestoreItemAction]{Wire: "AsyncRestoreItemAction", Bind: bind}
}
