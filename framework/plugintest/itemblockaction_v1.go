package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
)

// ItemBlockActionV1 returns the action that is registered as name.
func (p *Plugin) ItemBlockActionV1(name string, options ...Option) ibav1.ItemBlockAction {
	p.t.Helper()
	to := p.target(ibav1.Kind().KindVersion, name)
	return itemBlockActionV1{to, itemblockactionv1.NewItemBlockActionClient(p.configured(to, options))}
}

type itemBlockActionV1 struct {
	target
	client itemblockactionv1.ItemBlockActionClient
}

func (a itemBlockActionV1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.selector(a.client.AppliesTo(ctx, &itemblockactionv1.ItemBlockActionAppliesToRequest{Plugin: a.name}))
}

func (a itemBlockActionV1) GetRelatedItems(
	ctx context.Context, input *ibav1.GetRelatedItemsInput,
) (*ibav1.GetRelatedItemsOutput, error) {
	answer, err := a.client.GetRelatedItems(ctx, &itemblockactionv1.ItemBlockActionGetRelatedItemsRequest{
		Plugin: a.name, Item: encodeItem(input.Item), Backup: encode(input.Backup),
	})
	if err != nil {
		return nil, a.wrap(err)
	}
	return &ibav1.GetRelatedItemsOutput{RelatedItems: receivedItems(answer.GetRelatedItems())}, nil
}
