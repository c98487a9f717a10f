package v1_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/operations"
)

// volume is the input of the work.
type volume struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// mover copies the data of volumes while the backup continues.
type mover struct{ runner *operations.Runner[volume] }

func newMover(_ context.Context, setup *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
	dir, err := setup.StateDir()
	if err != nil {
		return nil, err
	}
	store, err := operations.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return &mover{operations.NewRunner(setup.Name(), store, move, operations.WithResume())}, nil
}

// move copies the data of one volume. It runs until it has finished or its context ends.
func move(_ context.Context, v volume, run *operations.Run) error {
	run.Report(0, 3, "files", "copying "+v.Name)
	return nil
}

func (m *mover) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (m *mover) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	id, err := m.runner.Start(ctx, input.Key, volume{Namespace: input.Item.GetNamespace(), Name: input.Item.GetName()})
	if err != nil {
		return nil, err
	}
	return abiav1.NewStartOutput(nil).WithOperation(id), nil
}

func (m *mover) Progress(ctx context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	return m.runner.Progress(ctx, input.OperationID)
}

func (m *mover) Cancel(ctx context.Context, input *abiav1.CancelInput) error {
	return m.runner.Cancel(ctx, input.OperationID)
}

// The main function of the plugin passes the registration to framework.Serve.
func Example() {
	registration := abiav1.Register("example.io/mover", newMover)
	fmt.Println(registration.Kind(), registration.Name())
	// Output: AsyncBackupItemAction example.io/mover
}

func ExampleRegister() {
	registration := abiav1.Register("example.io/mover", newMover, framework.WithOperationTimeout(12*time.Hour),
		framework.WithStallTimeout(30*time.Minute))
	fmt.Println(registration.Name())
	// Output: example.io/mover
}

func ExampleStartOutput() {
	claim := &unstructured.Unstructured{Object: map[string]any{}}
	claim.SetName("data")
	output := abiav1.NewStartOutput(claim).WithOperation("copy-17",
		framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"})
	fmt.Println(output.OperationID, output.PostOperationItems)
	// Output: copy-17 [persistentvolumeclaims/shop/data]
}
