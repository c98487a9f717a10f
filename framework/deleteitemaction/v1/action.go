package v1

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// DeleteItemAction is the interface that an author implements.
//
// One value serves all calls of a process, concurrently: several items of one backup, and several deletions.
// Nothing may be assumed about which process or value gets which item. ctx ends when the server goes away, or
// at the server's deadline for the call; an action that waits for something else must wait for ctx too. A
// deletion that was interrupted or had errors is done again from the start, so Execute may see an item again
// and must take what is gone already for done.
type DeleteItemAction interface {
	// AppliesTo says which items Execute wants to see; the zero value is all of them. It is asked once per
	// start of the process and the answer is kept, so it must not depend on time or on the cluster. An
	// error, or a label selector that does not parse, makes every deletion fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// Execute is called once for each item that AppliesTo selects, in no order that could be relied on,
	// before the backup's files are removed. An error is recorded; the other items and actions go on.
	Execute(ctx context.Context, input *ExecuteInput) error
}

// ExecuteInput is one item of a backup that is being deleted. The action owns it.
type ExecuteInput struct {
	// Item is the object as it stands in the backup; never nil. The cluster may hold something else by now.
	Item *unstructured.Unstructured
	// Backup is what is being deleted; never nil.
	Backup *velerov1.Backup
}

// Register registers the action that newAction makes under name, "example.io/forget". newAction is called at
// the first call for name; its logger writes to the log of the running deletion.
func Register(name string, newAction func(hclog.Logger) (DeleteItemAction, error)) framework.Registration {
	return framework.Register(Kind(), name, newAction)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[DeleteItemAction] {
	return framework.Kind[DeleteItemAction]{Wire: "DeleteItemAction", Bind: bind}
}
