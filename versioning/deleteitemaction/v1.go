package deleteitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	deleteitemactionv1 "github.com/cleat-dev/cleat/proto/velero/deleteitemaction/v1"
	"github.com/cleat-dev/cleat/versioning"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Action] {
	return versioning.NewVersion(diav1.Kind(), newV1, versioning.Calls{
		deleteitemactionv1.DeleteItemAction_AppliesTo_FullMethodName: {Class: versioning.Query, Repeatable: true,
			Constant: true},
		deleteitemactionv1.DeleteItemAction_Execute_FullMethodName: {Class: versioning.Execute},
	})
}

func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Action {
	return v1{Plugin: p, client: deleteitemactionv1.NewDeleteItemActionClient(conn)}
}

type v1 struct {
	versioning.Plugin
	client deleteitemactionv1.DeleteItemActionClient
}

func (a v1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.AppliesTo,
		&deleteitemactionv1.DeleteItemActionAppliesToRequest{Plugin: a.Name()}, versioning.Selector)
}

func (a v1) Execute(ctx context.Context, item, backup []byte) error {
	_, err := a.client.Execute(ctx, &deleteitemactionv1.DeleteItemActionExecuteRequest{
		Plugin: a.Name(), Item: item, Backup: backup,
	})
	return a.Wrap(err)
}
