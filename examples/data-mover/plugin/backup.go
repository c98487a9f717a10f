package plugin

import (
	"context"

	v1 "github.com/cleat-dev/cleat/examples/data-mover/api/v1"
	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/operations"
)

// backup moves the data of claims into the bucket while the backup continues.
type backup struct{ transfers }

func newBackup(_ context.Context, setup *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
	t, err := newTransfers(setup)
	return backup{t}, err
}

// Start implements abiav1.AsyncBackupItemAction. The claim in the backup names the snapshot, which is named after the
// key.
func (b backup) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	snapshot := operations.ID(Name, input.Key)
	id, err := b.start(ctx, v1.Spec{Direction: v1.Backup, Claim: claimOf(input.Item), Snapshot: snapshot, Key: input.Key})
	if err != nil {
		return nil, err
	}
	annotate(input.Item, snapshot)
	return abiav1.NewStartOutput(input.Item).WithOperation(id), nil
}

// Progress implements abiav1.AsyncBackupItemAction.
func (b backup) Progress(ctx context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	return b.progress(ctx, input.OperationID)
}

// Cancel implements abiav1.AsyncBackupItemAction.
func (b backup) Cancel(ctx context.Context, input *abiav1.CancelInput) error {
	return b.cancel(ctx, input.OperationID)
}
