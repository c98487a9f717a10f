package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
)

// BackupItemActionV1 returns the action that is registered as name.
func (p *Plugin) BackupItemActionV1(name string, options ...Option) biav1.BackupItemAction {
	p.t.Helper()
	to := p.target(biav1.Kind().KindVersion, name)
	return backupItemActionV1{to, backupitemactionv1.NewBackupItemActionClient(p.configured(to, options))}
}

type backupItemActionV1 struct {
	target
	client backupitemactionv1.BackupItemActionClient
}

func (a backupItemActionV1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.selector(a.client.AppliesTo(ctx, &backupitemactionv1.BackupItemActionAppliesToRequest{Plugin: a.name}))
}

func (a backupItemActionV1) Execute(ctx context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	answer, err := a.client.Execute(ctx, &backupitemactionv1.ExecuteRequest{
		Plugin: a.name, Item: encodeItem(input.Item), Backup: encode(input.Backup),
	})
	item, err := a.item(answer, err)
	if err != nil {
		return nil, err
	}
	return &biav1.ExecuteOutput{UpdatedItem: item, AdditionalItems: receivedItems(answer.GetAdditionalItems())}, nil
}
