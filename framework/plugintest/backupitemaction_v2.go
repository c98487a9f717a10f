package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
)

// BackupItemActionV2 returns the action that is registered as name.
func (p *Plugin) BackupItemActionV2(name string, options ...Option) biav2.BackupItemAction {
	p.t.Helper()
	to := p.target(biav2.Kind().KindVersion, name)
	return backupItemActionV2{to, backupitemactionv2.NewBackupItemActionClient(p.configured(to, options))}
}

type backupItemActionV2 struct {
	target
	client backupitemactionv2.BackupItemActionClient
}

func (a backupItemActionV2) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.selector(a.client.AppliesTo(ctx, &backupitemactionv2.BackupItemActionAppliesToRequest{Plugin: a.name}))
}

func (a backupItemActionV2) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	answer, err := a.client.Execute(ctx, &backupitemactionv2.ExecuteRequest{
		Plugin: a.name, Item: encodeItem(input.Item), Backup: encode(input.Backup),
	})
	item, err := a.item(answer, err)
	if err != nil {
		return nil, err
	}
	return &biav2.ExecuteOutput{
		UpdatedItem:        item,
		AdditionalItems:    receivedItems(answer.GetAdditionalItems()),
		OperationID:        answer.GetOperationID(),
		PostOperationItems: receivedItems(answer.GetPostOperationItems()),
	}, nil
}

func (a backupItemActionV2) Progress(
	ctx context.Context, input *biav2.ProgressInput,
) (framework.OperationProgress, error) {
	return a.progress(a.client.Progress(ctx, &backupitemactionv2.BackupItemActionProgressRequest{
		Plugin: a.name, OperationID: input.OperationID, Backup: encode(input.Backup),
	}))
}

func (a backupItemActionV2) Cancel(ctx context.Context, input *biav2.CancelInput) error {
	_, err := a.client.Cancel(ctx, &backupitemactionv2.BackupItemActionCancelRequest{
		Plugin: a.name, OperationID: input.OperationID, Backup: encode(input.Backup),
	})
	return a.wrap(err)
}
