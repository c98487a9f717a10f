package itemblockaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// NewV1 is the action listed as name in the plugin that conn reaches, at version 1 of the kind.
func NewV1(conn grpc.ClientConnInterface, name string) Action {
	return v1{
		Plugin: versioning.NewPlugin("ItemBlockAction", name),
		client: itemblockactionv1.NewItemBlockActionClient(conn),
	}
}

type v1 struct {
	versioning.Plugin
	client itemblockactionv1.ItemBlockActionClient
}

func (a v1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.CheckSelector(a.client.AppliesTo(ctx, &itemblockactionv1.ItemBlockActionAppliesToRequest{Plugin: a.Name()}))
}

func (a v1) GetRelatedItems(ctx context.Context, item, backup []byte) ([]framework.ResourceIdentifier, error) {
	answer, err := a.client.GetRelatedItems(ctx, &itemblockactionv1.ItemBlockActionGetRelatedItemsRequest{
		Plugin: a.Name(), Item: item, Backup: backup,
	})
	if err != nil {
		return nil, a.Wrap(err)
	}
	related, err := reply.Identifiers("relatedItems", answer.GetRelatedItems())
	if err != nil {
		return nil, a.Reject(err)
	}
	return related, nil
}
