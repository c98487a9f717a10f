package v1

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// DeleteItemAction is the interface that an author implements.
//
// One value serves all calls of a process, concurrently: several items of one backup, and several deletions. Do not
// assume which process or value gets which item. ctx ends when the server stops, or at the server's deadline for the
// call; an action that waits for something else must wait for ctx too. A deletion that was interrupted or had errors is
// done again from the start, so Execute may see an item again; what is removed already is not an error.
type DeleteItemAction interface {
	// AppliesTo returns the selector of the items for Execute; the zero value selects all. It is called once per start of
	// the process and the answer is kept, so it must not depend on the time or on the cluster. An error, or a label
	// selector that does not parse, makes every deletion fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute is called once for each item that AppliesTo selects, in no particular order, before the backup's files are
	// removed. An error is recorded; the other items and actions go on.
	Execute(ctx context.Context, input *ExecuteInput) error
}

// ExecuteInput is one item of a backup that is being deleted. The action owns it.
type ExecuteInput struct {
	// Item is the object as it is in the backup; never nil. The cluster may have another one by now.
	Item *unstructured.Unstructured
	// Backup is the one that is being deleted; never nil.
	Backup *velerov1.Backup
}

// Register registers the action that newAction makes under name, "example.io/forget". See framework.Setup for
// when it is called.
func Register(
	name string, newAction func(context.Context, *framework.Setup) (DeleteItemAction, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newAction, options)
}
