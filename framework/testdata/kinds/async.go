package main

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
)

// copier starts an operation whose id is the key.
type copier struct{}

func (copier) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (copier) Start(_ context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	return abiav1.NewStartOutput(nil).WithOperation(input.Key), nil
}

func (copier) Progress(_ context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	return progress(input.OperationID, input.Backup.Name), nil
}

func (copier) Cancel(context.Context, *abiav1.CancelInput) error { return nil }

// recopier is copier for restores. It cannot be stopped.
type recopier struct{}

func (recopier) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (recopier) Start(_ context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	return ariav1.NewStartOutput(nil).WithOperation(input.Key).WithoutRestore(), nil
}

func (recopier) Progress(_ context.Context, input *ariav1.ProgressInput) (framework.OperationProgress, error) {
	return progress(input.OperationID, input.Restore.Name), nil
}

func (recopier) Cancel(context.Context, *ariav1.CancelInput) error {
	return framework.ErrCannotCancel
}
