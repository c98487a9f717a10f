package itemblockaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// NewV1 returns the action listed as name in the plugin that conn reaches, at version 1 of the kind.
func NewV1(conn grpc.ClientConnInterface, name string) Action {
	return v1{
		Plugin: versioning.NewPlugin("ItemBlockAction", name),
		client: itemblockactionv1.NewItemBlockActionClient(conn),
	}
}

// CallsV1 declares the methods of the version.
func CallsV1() versioning.Calls {
	return versioning.Calls{
		itemblockactionv1.ItemBlockAction_AppliesTo_FullMethodName: {Class: versioning.Query, Repeatable: true,
			Constant: true},
		itemblockactionv1.ItemBlockAction_GetRelatedItems_FullMethodName: {Class: versioning.Execute},
	}
}

type v1 struct {
	versioning.Plugin
	client itemblockactionv1.ItemBlockActionClient
}

func (a v1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.AppliesTo,
		&itemblockactionv1.ItemBlockActionAppliesToRequest{Plugin: a.Name()}, versioning.Selector)
}

func (a v1) GetRelatedItems(ctx context.Context, item, backup []byte) ([]framework.ResourceIdentifier, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.GetRelatedItems,
		&itemblockactionv1.ItemBlockActionGetRelatedItemsRequest{
			Plugin: a.Name(), Item: item, Backup: backup,
		}, func(answer *itemblockactionv1.ItemBlockActionGetRelatedItemsResponse) ([]framework.ResourceIdentifier, error) {
			return reply.Identifiers("relatedItems", answer.GetRelatedItems())
		})
}
