package restoreitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	restoreitemactionv1 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Action] {
	return versioning.NewVersion(riav1.Kind(), newV1, versioning.Calls{
		restoreitemactionv1.RestoreItemAction_AppliesTo_FullMethodName: {Class: versioning.Query, Repeatable: true,
			Constant: true},
		// Velero restores one item after the other, and plugins made for it may rely on that.
		restoreitemactionv1.RestoreItemAction_Execute_FullMethodName: {Class: versioning.Execute, Alone: true},
	})
}

// newV1 returns the facade of p at version 1 of the kind: it starts no operations and does not wait for additional
// items.
func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Action {
	return v1{Plugin: p, client: restoreitemactionv1.NewRestoreItemActionClient(conn)}
}

type v1 struct {
	versioning.Plugin
	versioning.OneByOne
	client restoreitemactionv1.RestoreItemActionClient
}

func (a v1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.AppliesTo,
		&restoreitemactionv1.RestoreItemActionAppliesToRequest{Plugin: a.Name()}, versioning.Selector)
}

func (v1) Starts() versioning.Starts { return versioning.NoOperations }

func (a v1) Execute(ctx context.Context, input Input) (*Result, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.Execute, &restoreitemactionv1.RestoreItemActionExecuteRequest{
		Plugin: a.Name(), Item: input.Item, Restore: input.Restore, ItemFromBackup: input.ItemFromBackup,
	}, func(answer *restoreitemactionv1.RestoreItemActionExecuteResponse) (*Result, error) {
		if answer.GetSkipRestore() {
			return &Result{SkipRestore: true}, nil
		}
		if err := validateItem(input.Item, answer.GetItem()); err != nil {
			return nil, err
		}
		additional, err := reply.Identifiers("additionalItems", answer.GetAdditionalItems())
		return &Result{Item: answer.GetItem(), AdditionalItems: additional}, err
	})
}

func (a v1) Progress(context.Context, string, []byte) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, a.Wrap(versioning.ErrNoOperations)
}

func (a v1) Cancel(context.Context, string, []byte) error { return nil }

func (a v1) AreAdditionalItemsReady(context.Context, []framework.ResourceIdentifier, []byte) (bool, error) {
	return true, nil
}
