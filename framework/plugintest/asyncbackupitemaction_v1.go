package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	asyncbackupitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncbackupitemaction/v1"
)

// AsyncBackupItemActionV1 returns the action that is registered as name.
func (p *Plugin) AsyncBackupItemActionV1(name string, options ...Option) abiav1.AsyncBackupItemAction {
	p.t.Helper()
	to := p.target(abiav1.Kind().KindVersion, name)
	return asyncBackupItemActionV1{to,
		asyncbackupitemactionv1.NewAsyncBackupItemActionServiceClient(p.configured(to, options))}
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

func (a asyncBackupItemActionV1) Progress(
	ctx context.Context, input *abiav1.ProgressInput,
) (framework.OperationProgress, error) {
	return a.progressAndLines(a.client.Progress(ctx, &asyncbackupitemactionv1.ProgressRequest{
		Plugin: a.name, OperationId: input.OperationID, Backup: encode(input.Backup),
	}))
}

func (a asyncBackupItemActionV1) Cancel(ctx context.Context, input *abiav1.CancelInput) error {
	answer, err := a.client.Cancel(ctx, &asyncbackupitemactionv1.CancelRequest{
		Plugin: a.name, OperationId: input.OperationID, Backup: encode(input.Backup),
	})
	if err == nil && !answer.GetAck() {
		return framework.ErrCannotCancel
	}
	return a.wrap(err)
}
