package pods

import (
	"context"
	"slices"

	"github.com/cleat-dev/cleat/framework"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
)

// NewBlock returns velero.io/pod as an ItemBlockAction. It puts the PersistentVolumeClaims and the PriorityClass of a
// pod into its block.
func NewBlock(context.Context, *framework.Setup) (ibav1.ItemBlockAction, error) {
	return &block{}, nil
}

type block struct{}

func (*block) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}}, nil
}

func (*block) GetRelatedItems(
	_ context.Context, input *ibav1.GetRelatedItemsInput,
) (*ibav1.GetRelatedItemsOutput, error) {
	class, err := priorityClass(input.Item.Object)
	if err != nil {
		return nil, err
	}
	claims, err := claimsOf(input.Item, input.Item.GetNamespace())
	if err != nil {
		return nil, err
	}
	return &ibav1.GetRelatedItemsOutput{RelatedItems: slices.Concat(class, claims)}, nil
}
