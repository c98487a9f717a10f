package plugintest

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	deleteitemactionv1 "github.com/cleat-dev/cleat/proto/velero/deleteitemaction/v1"
)

// DeleteItemActionV1 returns the action that is registered as name.
func (p *Plugin) DeleteItemActionV1(name string, options ...Option) diav1.DeleteItemAction {
	p.t.Helper()
	to := p.target(diav1.Kind().KindVersion, name)
	return deleteItemActionV1{to, deleteitemactionv1.NewDeleteItemActionClient(p.configured(to, options))}
}

type deleteItemActionV1 struct {
	target
	client deleteitemactionv1.DeleteItemActionClient
}

func (a deleteItemActionV1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.selector(a.client.AppliesTo(ctx, &deleteitemactionv1.DeleteItemActionAppliesToRequest{Plugin: a.name}))
}

func (a deleteItemActionV1) Execute(ctx context.Context, input *diav1.ExecuteInput) error {
	_, err := a.client.Execute(ctx, &deleteitemactionv1.DeleteItemActionExecuteRequest{
		Plugin: a.name, Item: encodeItem(input.Item), Backup: encode(input.Backup),
	})
	return a.wrap(err)
}
