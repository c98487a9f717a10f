package v2

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// BackupItemAction is the interface that an author implements.
//
// One value serves all calls of a process, concurrently: several items of one backup, and several backups.
// Nothing may be assumed about which process or value gets which item; in particular Progress and Cancel may
// come to another process than the one whose Execute started the operation. ctx ends when the backup is
// cancelled, when the server goes away, or at the server's deadline for the call; an action that waits for
// something else must wait for ctx too. An operation lives on when ctx ends. Execute is never repeated for the
// action's sake after it failed; AppliesTo and Progress may be.
type BackupItemAction interface {
	// AppliesTo says which items Execute wants to see; the zero value is all of them. It is asked once per
	// start of the process and the answer is kept, so it must not depend on time or on the cluster. An
	// error, or a label selector that does not parse, makes every backup fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute is called once for each item that AppliesTo selects, after the actions before it in order,
	// whose changes it sees. nil output means that the item stays as it is. An error leaves the item out
	// of the backup, which becomes PartiallyFailed.
	Execute(ctx context.Context, input *ExecuteInput) (*ExecuteOutput, error)
	// Progress tells how far the operation is that Execute answered as operationID. The backup waits for it:
	// it is asked every few seconds until it says Completed, or until the backup's time for operations is
	// over. An error is logged and asked again. It is not called for an action that starts nothing.
	Progress(ctx context.Context, operationID string, backup *velerov1.Backup) (framework.OperationProgress, error)
	// Cancel asks for the end of the operation, without waiting for it; Progress tells of the end. It is
	// called when the time for operations is over, and may be called twice, or for an operation that has
	// ended: neither is an error. An action that cannot stop what it started returns nil.
	Cancel(ctx context.Context, operationID string, backup *velerov1.Backup) error
}

// ExecuteInput is one item of a backup. The action owns it and may change it in place.
type ExecuteInput struct {
	// Item is the object as it would be stored; never nil.
	Item *unstructured.Unstructured
	// Backup is what runs, with its defaults set; never nil.
	Backup *velerov1.Backup
}

// ExecuteOutput is what becomes of the item.
type ExecuteOutput struct {
	// UpdatedItem is stored instead of the item; nil stores the item as it came. It must be the same
	// object: same group and kind, namespace and name. (Changing ExecuteInput.Item alone changes nothing,
	// it has to be returned here.)
	UpdatedItem *unstructured.Unstructured
	// AdditionalItems are backed up before this item, if they exist and the backup's filters let them
	// through. They go through the actions like any item. Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
	// OperationID is what Progress and Cancel are asked about; empty when nothing was started. It has at most
	// 1024 bytes, no control characters, and must mean something to the next process of the plugin too.
	// Starting an operation while the backup is being finalised is an error of the item.
	OperationID string
	// PostOperationItems are backed up once more when the operation has ended, in the state that they have
	// then. They need an OperationID. Resource and Name must be set.
	PostOperationItems []framework.ResourceIdentifier
}

// ExecuteOnly is embedded by an action that starts no operations: it has the methods that are never called then.
type ExecuteOnly struct{}

// Progress implements BackupItemAction.
func (ExecuteOnly) Progress(_ context.Context, operationID string, _ *velerov1.Backup) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, fmt.Errorf("the action starts no operations, so there is none with the id %q", operationID)
}

// Cancel implements BackupItemAction.
func (ExecuteOnly) Cancel(context.Context, string, *velerov1.Backup) error { return nil }

// NewExecuteOutput is the answer that stores item.
func NewExecuteOutput(item *unstructured.Unstructured) *ExecuteOutput {
	return &ExecuteOutput{UpdatedItem: item}
}

// WithItems asks for more items to be backed up; it returns the output it changes.
func (o *ExecuteOutput) WithItems(items ...framework.ResourceIdentifier) *ExecuteOutput {
	o.AdditionalItems = append(o.AdditionalItems, items...)
	return o
}

// WithOperation tells of an operation that was started, and of the items to be backed up once more at its end; it
// returns the output it changes.
func (o *ExecuteOutput) WithOperation(operationID string, backedUpAfter ...framework.ResourceIdentifier) *ExecuteOutput {
	o.OperationID = operationID
	o.PostOperationItems = append(o.PostOperationItems, backedUpAfter...)
	return o
}

// Register registers the action that newAction makes under name, "example.io/stamp". newAction is called at the
// first call for name; its logger writes to the log of the running backup.
func Register(name string, newAction func(hclog.Logger) (BackupItemAction, error)) framework.Registration {
	return framework.Register(Kind(), name, newAction)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[BackupItemAction] {
	return framework.Kind[BackupItemAction]{Wire: "BackupItemActionV2", Bind: bind}
}
