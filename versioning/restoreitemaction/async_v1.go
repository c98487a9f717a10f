package restoreitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	asyncrestoreitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncrestoreitemaction/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// AsyncV1 describes version 1 of the kind AsyncRestoreItemAction.
func AsyncV1() versioning.Version[Action] {
	return versioning.NewVersion(ariav1.Kind(), newAsyncV1, versioning.Calls{
		asyncrestoreitemactionv1.AsyncRestoreItemActionService_AppliesTo_FullMethodName: {Class: versioning.Query,
			Repeatable: true, Constant: true},
		// Start is idempotent because of its key.
		asyncrestoreitemactionv1.AsyncRestoreItemActionService_Start_FullMethodName: {Class: versioning.Execute,
			Repeatable: true},
		asyncrestoreitemactionv1.AsyncRestoreItemActionService_Progress_FullMethodName: {Class: versioning.Query,
			Repeatable: true},
		// Progress is called for operations without an answer.
		asyncrestoreitemactionv1.AsyncRestoreItemActionService_ProgressOfMany_FullMethodName: {Class: versioning.Query},
		asyncrestoreitemactionv1.AsyncRestoreItemActionService_Cancel_FullMethodName:         {Class: versioning.Query},
	})
}

// newAsyncV1 returns the facade of p at version 1. Execute calls Start; the result has no operation if the plugin had
// nothing to start. The action does not wait for additional items.
func newAsyncV1(p versioning.Plugin, conn grpc.ClientConnInterface) Action {
	return asyncV1{
		Plugin: p, Many: new(versioning.Many),
		client: asyncrestoreitemactionv1.NewAsyncRestoreItemActionServiceClient(conn),
	}
}

type asyncV1 struct {
	versioning.Plugin
	*versioning.Many
	client asyncrestoreitemactionv1.AsyncRestoreItemActionServiceClient
}

func (a asyncV1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.AppliesTo, &asyncrestoreitemactionv1.AppliesToRequest{Plugin: a.Name()},
		versioning.Selector)
}

func (asyncV1) Starts() versioning.Starts { return versioning.Keyed }

func (a asyncV1) Execute(ctx context.Context, input Input) (*Result, error) {
	key, err := reply.StartKey(input.Restore, input.ItemFromBackup) // earlier actions may have renamed input.Item
	if err != nil {
		return nil, a.Wrap(err)
	}
	return versioning.Ask(ctx, a.Plugin, a.client.Start, &asyncrestoreitemactionv1.StartRequest{
		Plugin: a.Name(), Item: input.Item, Restore: input.Restore, ItemFromBackup: input.ItemFromBackup, Key: key,
	}, func(answer *asyncrestoreitemactionv1.StartResponse) (*Result, error) {
		return checkResult(input.Item, answer.GetItem(), answer.GetAdditionalItems(), answer.GetSkipRestore(),
			answer.GetOperationId())
	})
}

func (a asyncV1) Progress(
	ctx context.Context, operationID string, restore []byte,
) (framework.OperationProgress, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.Progress, &asyncrestoreitemactionv1.ProgressRequest{
		Plugin: a.Name(), OperationId: operationID, Restore: restore,
	}, versioning.ProgressAndLines)
}

func (a asyncV1) ProgressOfMany(
	ctx context.Context, operationIDs []string, restore []byte,
) (map[string]framework.OperationProgress, error) {
	answers, err := versioning.Ask(ctx, a.Plugin, a.client.ProgressOfMany, &asyncrestoreitemactionv1.ProgressOfManyRequest{
		Plugin: a.Name(), OperationIds: operationIDs, Restore: restore,
	}, versioning.ManyProgress)
	return answers, a.Answered(err)
}

func (a asyncV1) Cancel(ctx context.Context, operationID string, restore []byte) error {
	answer, err := a.client.Cancel(ctx, &asyncrestoreitemactionv1.CancelRequest{
		Plugin: a.Name(), OperationId: operationID, Restore: restore,
	})
	if err == nil && !answer.GetAck() {
		err = versioning.ErrNotCancelled
	}
	return a.Wrap(err)
}

func (a asyncV1) AreAdditionalItemsReady(context.Context, []framework.ResourceIdentifier, []byte) (bool, error) {
	return true, nil
}
