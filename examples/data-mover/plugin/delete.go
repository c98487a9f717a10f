package plugin

import (
	"context"

	v1 "github.com/cleat-dev/cleat/examples/data-mover/api/v1"
	"github.com/cleat-dev/cleat/framework"
	deletev1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
)

// remove deletes the snapshots of a backup that is deleted.
type remove struct{ transfers }

func newDelete(_ context.Context, setup *framework.Setup) (deletev1.DeleteItemAction, error) {
	t, err := newTransfers(setup)
	return remove{t}, err
}

// Execute implements deletev1.DeleteItemAction. It only requests the deletion of the snapshot from the controller: the
// deletion of the backup does not wait, and a repeated request has no effect.
func (r remove) Execute(ctx context.Context, input *deletev1.ExecuteInput) error {
	snapshot := input.Item.GetAnnotations()[SnapshotAnnotation]
	if snapshot == "" {
		return nil
	}
	_, err := r.start(ctx, v1.Deletion(claimOf(input.Item), snapshot))
	return err
}
