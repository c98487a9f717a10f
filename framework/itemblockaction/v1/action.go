package v1

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// ItemBlockAction is the interface that an author implements.
//
// A block is what one worker backs up in one go: the pre-hooks of all its pods, then all its items, then the
// post-hooks. Items that are related, directly or through others, stand in one block. So an action relates what
// has to be consistent with each other, and nothing else: blocks are backed up in parallel, one block is not.
//
// One value serves all calls of a process, concurrently: several items of one backup, and several backups.
// Nothing may be assumed about which process or value gets which item. ctx ends when the backup is
// cancelled, when the server goes away, or at the server's deadline for the call.
type ItemBlockAction interface {
	// AppliesTo says which items GetRelatedItems wants to see; the zero value is all of them. It is asked once
	// per start of the process and the answer is kept, so it must not depend on time or on the cluster. An
	// error, or a label selector that does not parse, makes every backup fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// GetRelatedItems is called for each item that AppliesTo selects before its block is backed up, and then
	// for the items that it answered. Nothing of the block has been backed up, no action has changed the item.
	// Those that the backup does not include, or that do not exist, are passed over; nil means that the item
	// stands alone as far as this action is concerned, and so does an error, which is logged. Resource and
	// Name must be set.
	GetRelatedItems(ctx context.Context, input *GetRelatedItemsInput) ([]framework.ResourceIdentifier, error)
}

// GetRelatedItemsInput is one item of a backup. The action owns it, but changing it changes nothing.
type GetRelatedItemsInput struct {
	// Item is the object as it is in the cluster; never nil.
	Item *unstructured.Unstructured
	// Backup is what runs, with its defaults set; never nil.
	Backup *velerov1.Backup
}

// Register registers the action that newAction makes under name, "example.io/shards". newAction is called at
// the first call for name; its logger writes to the log of the running backup.
func Register(name string, newAction func(hclog.Logger) (ItemBlockAction, error)) framework.Registration {
	return framework.Register(Kind(), name, newAction)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[ItemBlockAction] {
	return framework.Kind[ItemBlockAction]{Wire: "ItemBlockAction", Bind: bind}
}
