package v1_test

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	"github.com/cleat-dev/cleat/framework/operations"
)

// volume is the input of the work.
type volume struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// filler fills restored volumes while the restore continues.
type filler struct{ runner *operations.Runner[volume] }

func newFiller(_ context.Context, setup *framework.Setup) (ariav1.AsyncRestoreItemAction, error) {
	dir, err := setup.StateDir()
	if err != nil {
		return nil, err
	}
	store, err := operations.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return &filler{operations.NewRunner(setup.Name(), store, fill)}, nil
}

// fill waits for the volume, which does not exist when the operation begins, and copies its data.
func fill(_ context.Context, v volume, run *operations.Run) error {
	run.Describe("waiting for " + v.Name)
	return nil
}

func (f *filler) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (f *filler) Start(ctx context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	id, err := f.runner.Start(ctx, input.Key, volume{Namespace: input.Item.GetNamespace(), Name: input.Item.GetName()})
	if err != nil {
		return nil, err
	}
	return ariav1.NewStartOutput(nil).WithOperation(id), nil
}

func (f *filler) Progress(ctx context.Context, input *ariav1.ProgressInput) (framework.OperationProgress, error) {
	return f.runner.Progress(ctx, input.OperationID)
}

func (f *filler) Cancel(ctx context.Context, input *ariav1.CancelInput) error {
	return f.runner.Cancel(ctx, input.OperationID)
}

// The main function of the plugin passes the registration to framework.Serve.
func Example() {
	registration := ariav1.Register("example.io/filler", newFiller)
	fmt.Println(registration.Kind(), registration.Name())
	// Output: AsyncRestoreItemAction example.io/filler
}
