package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	asyncrestoreitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncrestoreitemaction/v1"
)

// AsyncRestoreItemActionV1 is the action that is registered as name.
func (p *Plugin) AsyncRestoreItemActionV1(name string) ariav1.AsyncRestoreItemAction {
	p.t.Helper()
	return asyncRestoreItemActionV1{
		p.target(ariav1.Kind().Wire, name), asyncrestoreitemactionv1.NewAsyncRestoreItemActionServiceClient(p.conn),
	}
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

func (a asyncRestoreItemActionV1) Progress(ctx context.Context, operationID string, restore *velerov1.Restore) (framework.OperationProgress, error) {
	return a.progress(a.client.Progress(ctx, &asyncrestoreitemactionv1.ProgressRequest{
		Plugin: a.name, OperationId: operationID, Restore: encode(restore),
	}))
}

func (a asyncRestoreItemActionV1) Cancel(ctx context.Context, operationID string, restore *velerov1.Restore) (bool, error) {
	answer, err := a.client.Cancel(ctx, &asyncrestoreitemactionv1.CancelRequest{
		Plugin: a.name, OperationId: operationID, Restore: encode(restore),
	})
	return answer.GetAck(), a.wrap(err)
}
