// Command waiter is a plugin of the benchmarks: for each config map that contains a duration, it starts an operation
// that waits. It is written in the usual way of authors, with the framework's runner, so each start is in a file
// before the reply.
package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/operations"
)

func main() { framework.Serve(abiav1.Register("bench.cleat.dev/waiter", newWaiter)) }

type waiter struct {
	runner *operations.Runner[time.Duration]
}

func newWaiter(_ context.Context, setup *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
	dir, err := setup.StateDir()
	if err != nil {
		return nil, err
	}
	store, err := operations.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return &waiter{operations.NewRunner(setup.Name(), store, wait)}, nil
}

func wait(ctx context.Context, length time.Duration, _ *operations.Run) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*waiter) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (w *waiter) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	text, found, err := unstructured.NestedString(input.Item.Object, "data", "wait")
	if err != nil || !found {
		return nil, err
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("data.wait: %w", err)
	}
	id, err := w.runner.Start(ctx, input.Key, length)
	if err != nil {
		return nil, err
	}
	return abiav1.NewStartOutput(nil).WithOperation(id), nil
}

func (w *waiter) Progress(ctx context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	return w.runner.Progress(ctx, input.OperationID)
}

func (w *waiter) Cancel(ctx context.Context, input *abiav1.CancelInput) error {
	return w.runner.Cancel(ctx, input.OperationID)
}
