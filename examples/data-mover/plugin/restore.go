package plugin

import (
	"context"

	v1 "github.com/cleat-dev/cleat/examples/data-mover/api/v1"
	"github.com/cleat-dev/cleat/framework"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
)

// restore moves the data of claims back while the restore continues.
type restore struct{ transfers }

func newRestore(_ context.Context, setup *framework.Setup) (ariav1.AsyncRestoreItemAction, error) {
	t, err := newTransfers(setup)
	return restore{t}, err
}

// Start implements ariav1.AsyncRestoreItemAction. It is called before the claim is created: the transfer names the
// future claim, in the target namespace. A claim without a snapshot starts nothing.
func (r restore) Start(ctx context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	snapshot := input.ItemFromBackup.GetAnnotations()[SnapshotAnnotation]
	if snapshot == "" {
		return nil, nil
	}
	id, err := r.start(ctx, v1.Spec{Direction: v1.Restore, Claim: claimOf(input.Item), Snapshot: snapshot, Key: input.Key})
	if err != nil {
		return nil, err
	}
	annotate(input.Item, "")
	return ariav1.NewStartOutput(input.Item).WithOperation(id), nil
}

// Progress implements ariav1.AsyncRestoreItemAction.
func (r restore) Progress(ctx context.Context, input *ariav1.ProgressInput) (framework.OperationProgress, error) {
	return r.progress(ctx, input.OperationID)
}

// Cancel implements ariav1.AsyncRestoreItemAction.
func (r restore) Cancel(ctx context.Context, input *ariav1.CancelInput) error {
	return r.cancel(ctx, input.OperationID)
}
