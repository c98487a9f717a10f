package main

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
)

// copier starts an operation whose id is the key.
type copier struct{}

func (copier) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (copier) Start(_ context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	return abiav1.Started(input.Key), nil
}

func (copier) Progress(_ context.Context, operationID string, backup *velerov1.Backup) (framework.OperationProgress, error) {
	return progress(operationID, backup.Name), nil
}

func (copier) Cancel(context.Context, string, *velerov1.Backup) (bool, error) { return true, nil }

// recopier is copier on the way back. It cannot be stopped.
type recopier struct{}

func (recopier) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (recopier) Start(_ context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	return ariav1.Started(input.Key).WithoutRestore(), nil
}

func (recopier) Progress(_ context.Context, operationID string, restore *velerov1.Restore) (framework.OperationProgress, error) {
	return progress(operationID, restore.Name), nil
}

func (recopier) Cancel(context.Context, string, *velerov1.Restore) (bool, error) { return false, nil }
