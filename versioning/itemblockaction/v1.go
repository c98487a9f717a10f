package itemblockaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Action] {
	return versioning.NewVersion(ibav1.Kind(), newV1, versioning.Calls{
		itemblockactionv1.ItemBlockAction_AppliesTo_FullMethodName: {Class: versioning.Query, Repeatable: true,
			Constant: true},
		itemblockactionv1.ItemBlockAction_GetRelatedItems_FullMethodName: {Class: versioning.Execute},
	})
}

func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Action {
	return v1{Plugin: p, client: itemblockactionv1.NewItemBlockActionClient(conn)}
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
