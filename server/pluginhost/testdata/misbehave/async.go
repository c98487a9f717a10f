package main

import (
	"context"
	"os"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	asyncbackupitemaction "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
)

// asyncAction starts operations that never end.
type asyncAction struct{}

func (asyncAction) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

// Start dies as often as the journal's companion file says.
func (asyncAction) Start(_ context.Context, input *asyncbackupitemaction.StartInput) (*asyncbackupitemaction.StartOutput, error) {
	journal("Start " + input.Key)
	if marker := os.Getenv("CLEAT_TEST_DIE_ONCE"); marker != "" && os.Remove(marker) == nil {
		os.Exit(4)
	}
	return asyncbackupitemaction.Started("operation-1"), nil
}

func (asyncAction) Progress(context.Context, string, *velerov1.Backup) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, nil
}

func (asyncAction) Cancel(context.Context, string, *velerov1.Backup) (bool, error) { return false, nil }
