package forvelero

import (
	"context"
	"io"

	"github.com/cleat-dev/cleat/framework"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/operations"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

// AsyncRestoreItemAction registers the action that newAction makes as a RestoreItemAction v2. Pass the same name,
// constructor and options to asyncrestoreitemaction/v1.Register; Serve refuses the adapter alone.
func AsyncRestoreItemAction(
	name string, newAction func(context.Context, *framework.Setup) (ariav1.AsyncRestoreItemAction, error),
	options ...framework.Option,
) framework.Registration {
	return riav2.Register(name, func(ctx context.Context, setup *framework.Setup) (riav2.RestoreItemAction, error) {
		action, err := newAction(ctx, setup)
		if err != nil || action == nil {
			return nil, err
		}
		return restoreAction{async: action}, nil
	}, append(options[:len(options):len(options)], framework.Option(glue.AdapterOf(ariav1.Kind().Wire)))...)
}

// restoreAction is a RestoreItemAction v2 by an AsyncRestoreItemAction. It never waits for additional items.
type restoreAction struct {
	riav2.ExecuteOnly
	async ariav1.AsyncRestoreItemAction
}

// AppliesTo implements riav2.RestoreItemAction.
func (a restoreAction) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.async.AppliesTo(ctx)
}

// Execute implements riav2.RestoreItemAction.
func (a restoreAction) Execute(ctx context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	started, err := a.async.Start(ctx, &ariav1.StartInput{
		Item: input.Item, ItemFromBackup: input.ItemFromBackup, Restore: input.Restore,
		Key: operations.Key(input.Restore, input.ItemFromBackup),
	})
	if err != nil || started == nil {
		return nil, err
	}
	return &riav2.ExecuteOutput{
		UpdatedItem: started.UpdatedItem, AdditionalItems: started.AdditionalItems,
		SkipRestore: started.SkipRestore, OperationID: started.OperationID,
	}, nil
}

// Progress implements riav2.RestoreItemAction.
func (a restoreAction) Progress(ctx context.Context, input *riav2.ProgressInput) (framework.OperationProgress, error) {
	return a.async.Progress(ctx, &ariav1.ProgressInput{OperationID: input.OperationID, Restore: input.Restore})
}

// Cancel implements riav2.RestoreItemAction.
func (a restoreAction) Cancel(ctx context.Context, input *riav2.CancelInput) error {
	return a.async.Cancel(ctx, &ariav1.CancelInput{OperationID: input.OperationID, Restore: input.Restore})
}

// Close closes the action, if it is an io.Closer.
func (a restoreAction) Close() error { return closed(a.async) }

func closed(action any) error {
	if closer, ok := action.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
