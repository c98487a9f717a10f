package main

import (
	"context"
	"errors"
	"time"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

// began is the start time of every operation here.
func began() time.Time { return time.Unix(1_700_000_000, 5).UTC() }

// progress is how far operation is, for whom.
func progress(operation, whom string) framework.OperationProgress {
	return framework.OperationProgress{
		NCompleted: 3, NTotal: 7, Units: "bytes", Description: operation + " of " + whom,
		Started: began(), Updated: began().Add(time.Second),
	}
}

// oldMover is the version of mover for servers that know only version 1.
type oldMover struct{}

func (oldMover) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (oldMover) Execute(context.Context, *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	return nil, errors.New("a server that knows version 2 does not use version 1")
}

type mover struct{}

func (mover) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}}, nil
}

func (mover) Execute(_ context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	item := framework.ResourceIdentifier{Resource: "configmaps", Namespace: input.Item.GetNamespace(),
		Name: input.Backup.Name}
	return biav2.NewExecuteOutput(nil).WithItems(item).WithOperation("move-"+input.Item.GetName(), item), nil
}

func (mover) Progress(_ context.Context, input *biav2.ProgressInput) (framework.OperationProgress, error) {
	return progress(input.OperationID, input.Backup.Name), nil
}

func (mover) Cancel(_ context.Context, input *biav2.CancelInput) error {
	if input.OperationID == "" {
		return errors.New("no operation is named")
	}
	return nil
}

type fetcher struct{}

func (fetcher) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}}, nil
}

func (fetcher) Execute(_ context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	output := riav2.NewExecuteOutput(nil).WithOperation("fetch-" + input.ItemFromBackup.GetName())
	if input.Restore.Name == "skip" {
		return output.WithoutRestore(), nil
	}
	return output.WithItems(framework.ResourceIdentifier{
		Resource: "secrets", Namespace: input.ItemFromBackup.GetNamespace(), Name: "key",
	}).WithItemsWaitFor(90 * time.Second), nil
}

func (fetcher) Progress(_ context.Context, input *riav2.ProgressInput) (framework.OperationProgress, error) {
	done := progress(input.OperationID, input.Restore.Name)
	done.Completed, done.Err = true, "disk full"
	return done, nil
}

func (fetcher) Cancel(context.Context, *riav2.CancelInput) error { return nil }

func (fetcher) AreAdditionalItemsReady(
	_ context.Context, input *riav2.AreAdditionalItemsReadyInput,
) (*riav2.AreAdditionalItemsReadyOutput, error) {
	ready := len(input.AdditionalItems) == 1 && input.AdditionalItems[0].Name == "key" && input.Restore.Name == "monday"
	return &riav2.AreAdditionalItemsReadyOutput{Ready: ready}, nil
}

type forget struct{}

func (forget) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{LabelSelector: "app=db"}, nil
}

func (forget) Execute(_ context.Context, input *diav1.ExecuteInput) error {
	if input.Backup.Name != "nightly" {
		return errors.New("not a backup of ours")
	}
	return nil
}

type shards struct{}

func (shards) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedNamespaces: []string{"in-*"}}, nil
}

func (shards) GetRelatedItems(
	_ context.Context, input *ibav1.GetRelatedItemsInput,
) (*ibav1.GetRelatedItemsOutput, error) {
	return &ibav1.GetRelatedItemsOutput{RelatedItems: []framework.ResourceIdentifier{
		{Resource: "pods", Namespace: input.Item.GetNamespace(), Name: input.Item.GetName() + "-2"},
		{Group: "example.io", Resource: "rings", Name: input.Backup.Name},
	}}, nil
}
