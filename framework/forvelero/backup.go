package forvelero

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/operations"
)

// AsyncBackupItemAction registers the action that newAction makes as a BackupItemAction v2. Pass the same name,
// constructor and options to asyncbackupitemaction/v1.Register; Serve refuses the adapter alone.
func AsyncBackupItemAction(
	name string, newAction func(context.Context, *framework.Setup) (abiav1.AsyncBackupItemAction, error),
	options ...framework.Option,
) framework.Registration {
	return biav2.Register(name, func(ctx context.Context, setup *framework.Setup) (biav2.BackupItemAction, error) {
		action, err := newAction(ctx, setup)
		if err != nil || action == nil {
			return nil, err
		}
		return backupAction{action}, nil
	}, append(options[:len(options):len(options)], framework.Option(glue.AdapterOf(abiav1.Kind().Wire)))...)
}

// backupAction is a BackupItemAction v2 by an AsyncBackupItemAction.
type backupAction struct{ async abiav1.AsyncBackupItemAction }

// AppliesTo implements biav2.BackupItemAction.
func (a backupAction) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.async.AppliesTo(ctx)
}

// Execute implements biav2.BackupItemAction.
func (a backupAction) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	started, err := a.async.Start(ctx, &abiav1.StartInput{
		Item: input.Item, Backup: input.Backup, Key: operations.Key(input.Backup, input.Item),
	})
	if err != nil || started == nil {
		return nil, err
	}
	return &biav2.ExecuteOutput{
		UpdatedItem: started.UpdatedItem, AdditionalItems: started.AdditionalItems,
		OperationID: started.OperationID, PostOperationItems: started.PostOperationItems,
	}, nil
}

// Progress implements biav2.BackupItemAction.
func (a backupAction) Progress(ctx context.Context, input *biav2.ProgressInput) (framework.OperationProgress, error) {
	return a.async.Progress(ctx, &abiav1.ProgressInput{OperationID: input.OperationID, Backup: input.Backup})
}

// Cancel implements biav2.BackupItemAction.
func (a backupAction) Cancel(ctx context.Context, input *biav2.CancelInput) error {
	return a.async.Cancel(ctx, &abiav1.CancelInput{OperationID: input.OperationID, Backup: input.Backup})
}

// Close closes the action, if it is an io.Closer.
func (a backupAction) Close() error { return closed(a.async) }
