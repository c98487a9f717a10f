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

// Execute implements deletev1.DeleteItemAction. It only asks the controller to delete the snapshot: the deletion of the
// backup does not wait, and asking again changes nothing.
func (r remove) Execute(ctx context.Context, input *deletev1.ExecuteInput) error {
	snapshot := input.Item.GetAnnotations()[SnapshotAnnotation]
	if snapshot == "" {
		return nil
	}
	_, err := r.start(ctx, v1.Deletion(claimOf(input.Item), snapshot))
	return err
}
