// Command mover is a plugin whose work waits until a test creates a file.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/operations"
)

const name = "example.io/mover"

func main() {
	framework.Serve(abiav1.Register(name, newMover))
}

// stateDir returns the last argument of the command line; the one before it is the lease.
func stateDir() string { return os.Args[len(os.Args)-1] }

// mover is an action whose work is a function.
type mover struct {
	runner *operations.Runner[volume]
}

// volume is the input of an operation.
type volume struct{ Namespace, Name string }

func newMover(_ context.Context, setup *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
	runner, err := newRunner(setup.Name())
	return &mover{runner}, err
}

func newRunner(name string) (*operations.Runner[volume], error) {
	store, err := operations.OpenDir(filepath.Join(stateDir(), "operations"))
	if err != nil {
		return nil, err
	}
	lease, err := time.ParseDuration(os.Args[len(os.Args)-2])
	if err != nil {
		return nil, err
	}
	return operations.NewRunner(name, store, move, operations.WithResume(), operations.WithLease(lease)), nil
}

func (m *mover) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (m *mover) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	id, err := m.runner.Start(ctx, input.Key, volume{input.Item.GetNamespace(), input.Item.GetName()})
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

// move records that it has begun, and waits for a file with the volume's name. The content of the file is its error.
func move(ctx context.Context, v volume, run *operations.Run) error {
	begun, err := os.OpenFile(filepath.Join(stateDir(), "begun"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer begun.Close()
	if _, err := fmt.Fprintln(begun, v.Name); err != nil {
		return err
	}
	run.Report(1, 2, "volumes", fmt.Sprintf("%s/%s, attempt %d", v.Namespace, v.Name, run.Attempt()))
	for ctx.Err() == nil {
		switch how, err := os.ReadFile(filepath.Join(stateDir(), v.Name)); {
		case err == nil && len(how) > 0:
			return errors.New(string(how))
		case !errors.Is(err, fs.ErrNotExist):
			return err // nil if the file is empty
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return ctx.Err()
}
