package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	restoreitemactionv1 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v1"
)

// RestoreItemActionV1 returns the action that is registered as name.
func (p *Plugin) RestoreItemActionV1(name string, options ...Option) riav1.RestoreItemAction {
	p.t.Helper()
	to := p.target(riav1.Kind().KindVersion, name)
	return restoreItemActionV1{to, restoreitemactionv1.NewRestoreItemActionClient(p.configured(to, options))}
}

type restoreItemActionV1 struct {
	target
	client restoreitemactionv1.RestoreItemActionClient
}

func (a restoreItemActionV1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.selector(a.client.AppliesTo(ctx, &restoreitemactionv1.RestoreItemActionAppliesToRequest{Plugin: a.name}))
}

func (a restoreItemActionV1) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	answer, err := a.client.Execute(ctx, &restoreitemactionv1.RestoreItemActionExecuteRequest{
		Plugin: a.name, Item: encodeItem(input.Item), ItemFromBackup: encodeItem(input.ItemFromBackup),
		Restore: encode(input.Restore),
	})
	item, err := a.item(answer, err)
	if err != nil {
		return nil, err
	}
	return &riav1.ExecuteOutput{
		UpdatedItem:     item,
		AdditionalItems: receivedItems(answer.GetAdditionalItems()),
		SkipRestore:     answer.GetSkipRestore(),
	}, nil
}
