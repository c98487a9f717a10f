// Command mover is a plugin with one asynchronous action for backups and one for restores, each served to Velero as
// well.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	"github.com/cleat-dev/cleat/framework/forvelero"
	"github.com/cleat-dev/cleat/framework/operations"
)

const name = "example.io/mover"

func main() {
	framework.Serve(
		abiav1.Register(name, newBackup), forvelero.AsyncBackupItemAction(name, newBackup),
		ariav1.Register(name, newRestore), forvelero.AsyncRestoreItemAction(name, newRestore),
	)
}

// claim is the input of an operation.
type claim struct{ Namespace, Name string }

func runnerFor(setup *framework.Setup, kind string) (*operations.Runner[claim], error) {
	dir, err := setup.StateDir()
	if err != nil {
		return nil, err
	}
	store, err := operations.OpenDir(filepath.Join(dir, kind))
	if err != nil {
		return nil, err
	}
	return operations.NewRunner(setup.Name(), store, move), nil
}

// move counts its calls in a file per claim, so that a test can see that a claim was moved once.
func move(_ context.Context, c claim, run *operations.Run) error {
	file, err := os.OpenFile(os.Getenv("CLEAT_TEST_JOURNAL"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	run.Report(3, 3, "blocks", "moved")
	_, err = fmt.Fprintf(file, "%s/%s\n", c.Namespace, c.Name)
	return err
}

func appliesTo() framework.ResourceSelector {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}
}

// backup moves claims that are backed up.
type backup struct{ runner *operations.Runner[claim] }

func newBackup(_ context.Context, setup *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
	runner, err := runnerFor(setup, "backup")
	return backup{runner}, err
}

func (backup) AppliesTo(context.Context) (framework.ResourceSelector, error) { return appliesTo(), nil }

func (b backup) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	item := input.Item
	id, err := b.runner.Start(ctx, input.Key, claim{item.GetNamespace(), item.GetName()})
	if err != nil {
		return nil, err
	}
	after := framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: item.GetNamespace(),
		Name: item.GetName()}
	return abiav1.NewStartOutput(nil).WithOperation(id, after), nil
}

func (b backup) Progress(ctx context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	return b.runner.Progress(ctx, input.OperationID)
}

func (backup) Cancel(context.Context, *abiav1.CancelInput) error { return framework.ErrCannotCancel }

// restore moves claims that are restored.
type restore struct{ runner *operations.Runner[claim] }

func newRestore(_ context.Context, setup *framework.Setup) (ariav1.AsyncRestoreItemAction, error) {
	runner, err := runnerFor(setup, "restore")
	return restore{runner}, err
}

func (restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return appliesTo(), nil
}

func (r restore) Start(ctx context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	id, err := r.runner.Start(ctx, input.Key, claim{input.Item.GetNamespace(), input.Item.GetName()})
	if err != nil {
		return nil, err
	}
	return ariav1.NewStartOutput(input.Item).WithOperation(id), nil
}

func (r restore) Progress(ctx context.Context, input *ariav1.ProgressInput) (framework.OperationProgress, error) {
	return r.runner.Progress(ctx, input.OperationID)
}

func (r restore) Cancel(ctx context.Context, input *ariav1.CancelInput) error {
	return r.runner.Cancel(ctx, input.OperationID)
}
