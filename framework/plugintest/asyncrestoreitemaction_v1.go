package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	asyncrestoreitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncrestoreitemaction/v1"
)

// AsyncRestoreItemActionV1 returns the action that is registered as name.
func (p *Plugin) AsyncRestoreItemActionV1(name string, options ...Option) ariav1.AsyncRestoreItemAction {
	p.t.Helper()
	to := p.target(ariav1.Kind().KindVersion, name)
	return asyncRestoreItemActionV1{to,
		asyncrestoreitemactionv1.NewAsyncRestoreItemActionServiceClient(p.configured(to, options))}
}

type asyncRestoreItemActionV1 struct {
	target
	client asyncrestoreitemactionv1.AsyncRestoreItemActionServiceClient
}

func (a asyncRestoreItemActionV1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.selector(a.client.AppliesTo(ctx, &asyncrestoreitemactionv1.AppliesToRequest{Plugin: a.name}))
}

func (a asyncRestoreItemActionV1) Start(ctx context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	answer, err := a.client.Start(ctx, &asyncrestoreitemactionv1.StartRequest{
		Plugin: a.name, Item: encodeItem(input.Item), ItemFromBackup: encodeItem(input.ItemFromBackup),
		Restore: encode(input.Restore), Key: input.Key,
	})
	item, err := a.item(answer, err)
	if err != nil {
		return nil, err
	}
	return &ariav1.StartOutput{
		UpdatedItem:     item,
		OperationID:     answer.GetOperationId(),
		SkipRestore:     answer.GetSkipRestore(),
		AdditionalItems: receivedItems(answer.GetAdditionalItems()),
	}, nil
}

func (a asyncRestoreItemActionV1) Progress(
	ctx context.Context, input *ariav1.ProgressInput,
) (framework.OperationProgress, error) {
	return a.progressAndLines(a.client.Progress(ctx, &asyncrestoreitemactionv1.ProgressRequest{
		Plugin: a.name, OperationId: input.OperationID, Restore: encode(input.Restore),
	}))
}

func (a asyncRestoreItemActionV1) Cancel(ctx context.Context, input *ariav1.CancelInput) error {
	answer, err := a.client.Cancel(ctx, &asyncrestoreitemactionv1.CancelRequest{
		Plugin: a.name, OperationId: input.OperationID, Restore: encode(input.Restore),
	})
	if err == nil && !answer.GetAck() {
		return framework.ErrCannotCancel
	}
	return a.wrap(err)
}
