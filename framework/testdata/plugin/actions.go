package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

func registrations() []framework.Registration {
	return []framework.Registration{
		biav1.Register("example.io/stamp", backup(stamp)),
		biav1.Register("example.io/keep", backup(keep)),
		biav1.Register("example.io/fail", backup(fail)),
		biav1.Register("example.io/panic", backup(nilDereference)),
		biav1.Register("example.io/log", backup(logAtAllLevels)),
		biav1.Register("example.io/print", backup(printToStdout)),
		riav1.Register("example.io/skip", restore(skip)),
		riav1.Register("example.io/compare", restore(compare)),
		osv1.Register("example.io/memory", newMemory, framework.WithConfig(memoryConfig{})),
	}
}

// onBackup is a BackupItemAction that consists of its Execute.
type onBackup struct {
	log     hclog.Logger
	execute func(hclog.Logger, *biav1.ExecuteInput) (*biav1.ExecuteOutput, error)
}

func backup(
	execute func(hclog.Logger, *biav1.ExecuteInput) (*biav1.ExecuteOutput, error),
) func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
	return func(_ context.Context, setup *framework.Setup) (biav1.BackupItemAction, error) {
		return onBackup{setup.Logger(), execute}, nil
	}
}

func (a onBackup) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{
		IncludedNamespaces: []string{"in-*"}, ExcludedNamespaces: []string{"in-2"},
		IncludedResources: []string{"pods", "deployments.apps"}, ExcludedResources: []string{"secrets"},
		LabelSelector: "app=db",
	}, nil
}

func (a onBackup) Execute(_ context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	return a.execute(a.log, input)
}

func stamp(_ hclog.Logger, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	input.Item.SetAnnotations(map[string]string{"example.io/stamp": input.Backup.Name})
	return biav1.NewExecuteOutput(input.Item).WithItems(framework.ResourceIdentifier{
		Group: "apps", Resource: "deployments", Namespace: "in-1", Name: "web",
	}), nil
}

func keep(hclog.Logger, *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	return nil, nil //nolint:nilnil // what the interface says an unchanged item is
}

func fail(log hclog.Logger, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	err := framework.Errorf("no room for %s", input.Item.GetName())
	log.Error("gives up", "error", err)
	return nil, fmt.Errorf("stamp: %w", err)
}

func nilDereference(hclog.Logger, *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	var output *biav1.ExecuteOutput
	return &biav1.ExecuteOutput{AdditionalItems: output.AdditionalItems}, nil
}

func logAtAllLevels(log hclog.Logger, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	log = log.With("item", input.Item.GetName())
	log.Trace("a trace")
	log.Debug("a debug line")
	log.Info("an info line", "count", 3)
	log.Warn("a warning")
	log.Error("an error line")
	return biav1.NewExecuteOutput(input.Item), nil
}

func printToStdout(_ hclog.Logger, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	fmt.Println("1|2|unix|/nowhere|grpc|")
	return biav1.NewExecuteOutput(input.Item), nil
}

// onRestore is a RestoreItemAction that consists of its Execute.
type onRestore struct {
	execute func(*riav1.ExecuteInput) (*riav1.ExecuteOutput, error)
}

func restore(
	execute func(*riav1.ExecuteInput) (*riav1.ExecuteOutput, error),
) func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
		return onRestore{execute}, nil
	}
}

func (a onRestore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (a onRestore) Execute(_ context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	return a.execute(input)
}

func skip(input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	return riav1.NewExecuteOutput(input.Item).WithoutRestore(), nil
}

func compare(input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	input.Item.SetAnnotations(map[string]string{
		"was": input.ItemFromBackup.GetNamespace() + "/" + input.ItemFromBackup.GetName(), "restore": input.Restore.Name,
	})
	return riav1.NewExecuteOutput(input.Item).WithItems(framework.ResourceIdentifier{
		Resource: "configmaps", Namespace: "in-1", Name: "settings",
	}), nil
}
