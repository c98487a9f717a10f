package v1

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// ItemBlockAction is the interface that an author implements.
//
// A block is backed up by one worker: the pre-hooks of all its pods, then all its items, then the post-hooks. Items
// that are related, directly or through others, are in one block. So an action relates only items that must be
// consistent with each other: blocks are backed up in parallel, the items of a block are not.
//
// One value serves all calls of a process, concurrently: several items of one backup, and several backups. Do not
// assume which process or value gets which item. ctx ends when the backup is cancelled, when the server stops, or at
// the server's deadline for the call.
type ItemBlockAction interface {
	// AppliesTo returns the selector of the items for GetRelatedItems; the zero value selects all. It is called once per
	// start of the process and the answer is kept, so it must not depend on the time or on the cluster. An error, or a
	// label selector that does not parse, makes every backup fail.
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
	// GetRelatedItems is called for each item that AppliesTo selects before its block is backed up, and then for the
	// items that it returned. Nothing of the block has been backed up, and no action has changed the item. A nil output
	// means that the item is alone as far as this action is concerned, and so does an error, which is logged.
	GetRelatedItems(ctx context.Context, input *GetRelatedItemsInput) (*GetRelatedItemsOutput, error)
}

// GetRelatedItemsInput is one item of a backup. The action owns it, but a change in it has no effect.
type GetRelatedItemsInput struct {
	// Item is the object as it is in the cluster; never nil.
	Item *unstructured.Unstructured
	// Backup is the one that runs, with its defaults set; never nil.
	Backup *velerov1.Backup
}

// GetRelatedItemsOutput has the items that must be in the block of the item.
type GetRelatedItemsOutput struct {
	// RelatedItems that the backup does not include, or that do not exist, are ignored. Resource and Name must be set.
	RelatedItems []framework.ResourceIdentifier
}

// Register registers the action that newAction makes under name, "example.io/shards". See framework.Setup for
// when it is called.
func Register(
	name string, newAction func(context.Context, *framework.Setup) (ItemBlockAction, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newAction, options)
}
