package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	asyncbackupitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncbackupitemaction/v1"
)

// AsyncBackupItemActionV1 is the action that is registered as name.
func (p *Plugin) AsyncBackupItemActionV1(name string) abiav1.AsyncBackupItemAction {
	p.t.Helper()
	return asyncBackupItemActionV1{
		p.target(abiav1.Kind().Wire, name), asyncbackupitemactionv1.NewAsyncBackupItemActionServiceClient(p.conn),
	}
}

type asyncBackupItemActionV1 struct {
	target
	client asyncbackupitemactionv1.AsyncBackupItemActionServiceClient
}

func (a asyncBackupItemActionV1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.selector(a.client.AppliesTo(ctx, &asyncbackupitemactionv1.AppliesToRequest{Plugin: a.name}))
}

func (a asyncBackupItemActionV1) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	answer, err := a.client.Start(ctx, &asyncbackupitemactionv1.StartRequest{
		Plugin: a.name, Item: encodeItem(input.Item), Backup: encode(input.Backup), Key: input.Key,
	})
	item, err := a.item(answer, err)
	if err != nil {
		return nil, err
	}
	return &abiav1.StartOutput{
		UpdatedItem:        item,
		OperationID:        answer.GetOperationId(),
		AdditionalItems:    receivedItems(answer.GetAdditionalItems()),
		PostOperationItems: receivedItems(answer.GetPostOperationItems()),
	}, nil
}

func (a asyncBackupItemActionV1) Progress(ctx context.Context, operationID string, backup *velerov1.Backup) (framework.OperationProgress, error) {
	return a.progress(a.client.Progress(ctx, &asyncbackupitemactionv1.ProgressRequest{
		Plugin: a.name, OperationId: operationID, Backup: encode(backup),
	}))
}

func (a asyncBackupItemActionV1) Cancel(ctx context.Context, operationID string, backup *velerov1.Backup) (bool, error) {
	answer, err := a.client.Cancel(ctx, &asyncbackupitemactionv1.CancelRequest{
		Plugin: a.name, OperationId: operationID, Backup: encode(backup),
	})
	return answer.GetAck(), a.wrap(err)
}
