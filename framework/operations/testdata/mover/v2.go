package main

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/operations"
)

// moverV2 is a mover for hosts without AsyncBackupItemAction. Its input has no key.
type moverV2 struct {
	runner *operations.Runner[volume]
}

func registerV2() framework.Registration {
	return biav2.Register(name+"-v2", func(_ context.Context, setup *framework.Setup) (biav2.BackupItemAction, error) {
		runner, err := newRunner(setup.Name())
		return &moverV2{runner}, err
	})
}

func (m *moverV2) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (m *moverV2) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	id, err := m.runner.Start(ctx, operations.Key(input.Backup, input.Item),
		volume{input.Item.GetNamespace(), input.Item.GetName()})
	if err != nil {
		return nil, err
	}
	return biav2.NewExecuteOutput(nil).WithOperation(id), nil
}

func (m *moverV2) Progress(ctx context.Context, input *biav2.ProgressInput) (framework.OperationProgress, error) {
	return m.runner.Progress(ctx, input.OperationID)
}

func (m *moverV2) Cancel(ctx context.Context, input *biav2.CancelInput) error {
	return m.runner.Cancel(ctx, input.OperationID)
}
