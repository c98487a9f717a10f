package restoreitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// V2 describes version 2 of the kind.
func V2() versioning.Version[Action] {
	return versioning.NewVersion(riav2.Kind(), newV2, versioning.Calls{
		restoreitemactionv2.RestoreItemAction_AppliesTo_FullMethodName: {Class: versioning.Query, Repeatable: true,
			Constant: true},
		// Velero restores one item after the other, and plugins made for it may rely on that.
		restoreitemactionv2.RestoreItemAction_Execute_FullMethodName:  {Class: versioning.Execute, Alone: true},
		restoreitemactionv2.RestoreItemAction_Progress_FullMethodName: {Class: versioning.Query, Repeatable: true},
		restoreitemactionv2.RestoreItemAction_Cancel_FullMethodName:   {Class: versioning.Query},
		restoreitemactionv2.RestoreItemAction_AreAdditionalItemsReady_FullMethodName: {Class: versioning.Query,
			Repeatable: true},
	})
}

func newV2(p versioning.Plugin, conn grpc.ClientConnInterface) Action {
	return v2{Plugin: p, client: restoreitemactionv2.NewRestoreItemActionClient(conn)}
}

type v2 struct {
	versioning.Plugin
	versioning.OneByOne
	client restoreitemactionv2.RestoreItemActionClient
}

func (a v2) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.AppliesTo,
		&restoreitemactionv2.RestoreItemActionAppliesToRequest{Plugin: a.Name()}, versioning.Selector)
}

func (v2) Starts() versioning.Starts { return versioning.Unkeyed }

func (a v2) Execute(ctx context.Context, input Input) (*Result, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.Execute, &restoreitemactionv2.RestoreItemActionExecuteRequest{
		Plugin: a.Name(), Item: input.Item, Restore: input.Restore, ItemFromBackup: input.ItemFromBackup,
	}, func(answer *restoreitemactionv2.RestoreItemActionExecuteResponse) (*Result, error) {
		result, err := checkResult(input.Item, answer.GetItem(), answer.GetAdditionalItems(), answer.GetSkipRestore(),
			answer.GetOperationID())
		if err != nil || result.SkipRestore {
			return result, err
		}
		result.WaitForAdditionalItems = answer.GetWaitForAdditionalItems()
		result.AdditionalItemsReadyTimeout, err = hostapi.Timeout("additionalItemsReadyTimeout",
			answer.GetAdditionalItemsReadyTimeout())
		return result, err
	})
}

func (a v2) Progress(ctx context.Context, operationID string, restore []byte) (framework.OperationProgress, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.Progress, &restoreitemactionv2.RestoreItemActionProgressRequest{
		Plugin: a.Name(), OperationID: operationID, Restore: restore,
	}, versioning.Progress)
}

func (a v2) Cancel(ctx context.Context, operationID string, restore []byte) error {
	_, err := a.client.Cancel(ctx, &restoreitemactionv2.RestoreItemActionCancelRequest{
		Plugin: a.Name(), OperationID: operationID, Restore: restore,
	})
	return a.Wrap(err)
}

func (a v2) AreAdditionalItemsReady(
	ctx context.Context, items []framework.ResourceIdentifier, restore []byte,
) (bool, error) {
	answer, err := a.client.AreAdditionalItemsReady(ctx, &restoreitemactionv2.RestoreItemActionItemsReadyRequest{
		Plugin: a.Name(), Restore: restore, AdditionalItems: reply.Sent(items),
	})
	return answer.GetReady(), a.Wrap(err)
}
