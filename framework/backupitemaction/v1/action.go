package v1

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
// Do not assume which process or value gets which item. ctx ends when the
// backup is cancelled, when the server stops, or at the server's deadline for the call; an action that waits for
// something else must wait for ctx too. The server
// repeats no call that failed; what has to be tried again is tried again inside the call.
type BackupItemAction interface {
	// AppliesTo returns the selector of the items for Execute; the zero value selects all. It is called once per start of
	// the process and the answer is kept, so it must not depend on the time or on the cluster. An error, or a label
	// selector that does not parse, makes every backup fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute is called once for each item that AppliesTo selects, after the actions before it in order, whose changes it
	// sees. A nil output leaves the item as it is. An error leaves the item out of the backup, which becomes
	// PartiallyFailed.
	Execute(ctx context.Context, input *ExecuteInput) (*ExecuteOutput, error)
}

// ExecuteInput is one item of a backup. The action owns it and may change it in place.
type ExecuteInput struct {
	// Item is the object as it would be stored; never nil.
	Item *unstructured.Unstructured
	// Backup is the one that runs, with its defaults set; never nil.
	Backup *velerov1.Backup
}

// ExecuteOutput is what becomes of the item.
type ExecuteOutput struct {
	// UpdatedItem is stored instead of the item; nil stores the item as it came. It must be the same object: same group
	// and kind, namespace and name. (To change ExecuteInput.Item alone changes nothing; return it here.)
	UpdatedItem *unstructured.Unstructured
	// AdditionalItems are backed up before this item, if they exist and the backup's filters include them. They go through
	// the actions like any item. Resource and Name must be set.
	AdditionalItems []framework.ResourceIdentifier
}

// NewExecuteOutput returns the output that stores item; nil leaves the item as it came.
func NewExecuteOutput(item *unstructured.Unstructured) *ExecuteOutput {
	return &ExecuteOutput{UpdatedItem: item}
}

// WithItems requests more items to be backed up; it returns o.
func (o *ExecuteOutput) WithItems(items ...framework.ResourceIdentifier) *ExecuteOutput {
	o.AdditionalItems = append(o.AdditionalItems, items...)
	return o
}

// Register registers the action that newAction makes under name, "example.io/stamp". See framework.Setup for
// when it is called.
func Register(
	name string, newAction func(context.Context, *framework.Setup) (BackupItemAction, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newAction, options)
}
