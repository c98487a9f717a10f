package deleteitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	deleteitemactionv1 "github.com/cleat-dev/cleat/proto/velero/deleteitemaction/v1"
	"github.com/cleat-dev/cleat/versioning"
)

// NewV1 returns the action listed as name in the plugin that conn reaches, at version 1 of the kind.
func NewV1(conn grpc.ClientConnInterface, name string) Action {
	return v1{
		Plugin: versioning.NewPlugin("DeleteItemAction", name),
		client: deleteitemactionv1.NewDeleteItemActionClient(conn),
	}
}

// CallsV1 declares the methods of the version.
func CallsV1() versioning.Calls {
	return versioning.Calls{
		deleteitemactionv1.DeleteItemAction_AppliesTo_FullMethodName: {Class: versioning.Query, Repeatable: true,
			Constant: true},
		deleteitemactionv1.DeleteItemAction_Execute_FullMethodName: {Class: versioning.Execute},
	}
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
