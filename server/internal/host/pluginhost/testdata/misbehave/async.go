package main

import (
	"context"
	"os"

	"github.com/cleat-dev/cleat/framework"
	asyncbackupitemaction "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
)

// asyncAction starts operations that never end.
type asyncAction struct{}

func (asyncAction) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

// Start exits as often as the companion file of the journal says.
func (asyncAction) Start(
	_ context.Context, input *asyncbackupitemaction.StartInput,
) (*asyncbackupitemaction.StartOutput, error) {
	journal("Start " + input.Key)
	if marker := os.Getenv("CLEAT_TEST_DIE_ONCE"); marker != "" && os.Remove(marker) == nil {
		os.Exit(4)
	}
	return asyncbackupitemaction.NewStartOutput(nil).WithOperation("operation-1"), nil
}

func (asyncAction) Progress(
	context.Context, *asyncbackupitemaction.ProgressInput,
) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, nil
}

func (asyncAction) Cancel(context.Context, *asyncbackupitemaction.CancelInput) error {
	return framework.ErrCannotCancel
}
