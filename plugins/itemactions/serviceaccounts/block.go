package serviceaccounts

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
)

// NewBlock returns velero.io/service-account as an ItemBlockAction. It puts the ClusterRoleBindings that name a
// ServiceAccount, and their ClusterRoles, into its block. list is called once per backup, with the first
// ServiceAccount.
func NewBlock(list ListBindings) (ibav1.ItemBlockAction, error) {
	return &block{bindings: bindings{list: list}}, nil
}

type block struct {
	bindings bindings
}

func (*block) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"serviceaccounts"}}, nil
}

func (b *block) GetRelatedItems(
	ctx context.Context, input *ibav1.GetRelatedItemsInput,
) (*ibav1.GetRelatedItemsOutput, error) {
	grants, err := b.bindings.of(ctx, input.Backup)
	if err != nil {
		return nil, framework.WithStack(fmt.Errorf("which cluster roles a service account has: %w", err))
	}
	return &ibav1.GetRelatedItemsOutput{
		RelatedItems: grants.of(input.Item.GetNamespace(), input.Item.GetName()),
	}, nil
}
