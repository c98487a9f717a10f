package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
)

// RestoreItemActionV2 returns the action that is registered as name.
func (p *Plugin) RestoreItemActionV2(name string, options ...Option) riav2.RestoreItemAction {
	p.t.Helper()
	to := p.target(riav2.Kind().KindVersion, name)
	return restoreItemActionV2{to, restoreitemactionv2.NewRestoreItemActionClient(p.configured(to, options))}
}

type restoreItemActionV2 struct {
	target
	client restoreitemactionv2.RestoreItemActionClient
}

func (a restoreItemActionV2) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.selector(a.client.AppliesTo(ctx, &restoreitemactionv2.RestoreItemActionAppliesToRequest{Plugin: a.name}))
}

func (a restoreItemActionV2) Execute(ctx context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	answer, err := a.client.Execute(ctx, &restoreitemactionv2.RestoreItemActionExecuteRequest{
		Plugin: a.name, Item: encodeItem(input.Item), ItemFromBackup: encodeItem(input.ItemFromBackup),
		Restore: encode(input.Restore),
	})
	item, err := a.item(answer, err)
	if err != nil {
		return nil, err
	}
	return &riav2.ExecuteOutput{
		UpdatedItem:                 item,
		AdditionalItems:             receivedItems(answer.GetAdditionalItems()),
		SkipRestore:                 answer.GetSkipRestore(),
		OperationID:                 answer.GetOperationID(),
		WaitForAdditionalItems:      answer.GetWaitForAdditionalItems(),
		AdditionalItemsReadyTimeout: answer.GetAdditionalItemsReadyTimeout().AsDuration(),
	}, nil
}

func (a restoreItemActionV2) Progress(
	ctx context.Context, input *riav2.ProgressInput,
) (framework.OperationProgress, error) {
	return a.progress(a.client.Progress(ctx, &restoreitemactionv2.RestoreItemActionProgressRequest{
		Plugin: a.name, OperationID: input.OperationID, Restore: encode(input.Restore),
	}))
}

func (a restoreItemActionV2) Cancel(ctx context.Context, input *riav2.CancelInput) error {
	_, err := a.client.Cancel(ctx, &restoreitemactionv2.RestoreItemActionCancelRequest{
		Plugin: a.name, OperationID: input.OperationID, Restore: encode(input.Restore),
	})
	return a.wrap(err)
}

func (a restoreItemActionV2) AreAdditionalItemsReady(
	ctx context.Context, input *riav2.AreAdditionalItemsReadyInput,
) (*riav2.AreAdditionalItemsReadyOutput, error) {
	answer, err := a.client.AreAdditionalItemsReady(ctx, &restoreitemactionv2.RestoreItemActionItemsReadyRequest{
		Plugin: a.name, Restore: encode(input.Restore), AdditionalItems: wire.Identifiers(input.AdditionalItems),
	})
	if err != nil {
		return nil, a.wrap(err)
	}
	return &riav2.AreAdditionalItemsReadyOutput{Ready: answer.GetReady()}, nil
}
